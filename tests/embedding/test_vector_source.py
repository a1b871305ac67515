import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from tinylm.base.config import InputError, read_section
from tinylm.embedding import source as vector_source
from tinylm.embedding.settings import EmbeddingSettings
from tinylm.embedding.source import check_vectors, read_vectors, vector_file

SECTION = {
    "source": "file", "path": "a.vec", "hub_id": None, "hub_revision": None, "width": 7, "epochs": 1, "window": 1,
    "min_n": 3, "max_n": 3, "buckets": 10, "lr": 0.1, "std": 0.02, "seed": 1
}  # fmt: skip


def settings(**changes):
    return read_section({"embedding": SECTION | changes}, "embedding", EmbeddingSettings)


@pytest.fixture
def vec(tmp_path):
    path = tmp_path / "a.vec"
    path.write_text("2 7\nthe 1 2 3 4 5 6 7\nCat 7 6 5 4 3 2 1\n")
    return path


def test_the_name_tells_the_reader(vec, train_bin):
    table, covered, info = read_vectors(vec, ["the", "cat", "dog"], 7)
    assert table.tolist() == [[1, 2, 3, 4, 5, 6, 7], [7, 6, 5, 4, 3, 2, 1], [0] * 7]
    assert (covered.tolist(), info) == ([True, True, False], {})
    table, covered, info = read_vectors(train_bin(), ["the", "catty"], 7)
    assert table.any(axis=1).all()
    assert (covered.tolist(), info) == ([True, True], {"from_subwords": 1})


@pytest.mark.parametrize("name", ["a.txt", "a.vec.zip", "a.npy", "vec"])
def test_other_names_are_refused(vec, name):
    path = vec.rename(vec.with_name(name))
    for call in (lambda: check_vectors(path, 7), lambda: read_vectors(path, ["the"], 7)):
        with pytest.raises(
            InputError, match=r"not a supported format of vectors; allowed: \.vec, \.vec\.gz or"
        ):
            call()


def test_packed_binaries_are_refused_with_what_to_do(tmp_path):
    (tmp_path / "cc.en.300.bin.gz").touch()
    with pytest.raises(InputError, match="unpack it first"):
        check_vectors(tmp_path / "cc.en.300.bin.gz", 7)


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.bin")
    (tmp_path / "folder.vec").mkdir()
    for name, what in (
        ("pipe.bin", "no regular file"),
        ("folder.vec", "no regular file"),
        ("none.vec", "no such file"),
    ):
        with pytest.raises(InputError, match=f"embedding.path = '.*{name}': {what}; allowed"):
            read_vectors(tmp_path / name, ["the"], 7)


def test_a_file_without_a_word_of_the_vocabulary_is_refused(vec):
    with pytest.raises(InputError, match=r"a\.vec: has none of the vocabulary's 2 words"):
        read_vectors(vec, ["zebra", "yak"], 7)


@pytest.mark.parametrize("width", [7, 8])
def test_check_knows_the_width(vec, train_bin, width):
    for path in (vec, train_bin()):
        if width == 7:
            check_vectors(path, width)
            continue
        with pytest.raises(InputError, match=r"vectors of width 7; embedding\.width = 8"):
            check_vectors(path, width)


def test_unreadable(vec, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(vector_source, "read_vec", refuse)
    with pytest.raises(InputError, match=r"embedding\.path = .*cannot be read: Permission denied"):
        read_vectors(vec, ["the"], 7)


class Hub:
    """Stands in for huggingface_hub: a repository's files, copied from a folder when they are asked for."""

    def __init__(self, monkeypatch, folder, names):
        import huggingface_hub

        self.folder, self.names, self.asked = folder, names, []
        monkeypatch.setattr(huggingface_hub.HfApi, "model_info", self.model_info)
        monkeypatch.setattr(huggingface_hub, "hf_hub_download", self.hf_hub_download)

    def model_info(self, hub_id, revision, timeout):
        self.asked.append((hub_id, revision, timeout))
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=name) for name in self.names])

    def hf_hub_download(self, hub_id, name, revision):
        self.asked.append((hub_id, name, revision))
        return shutil.copy(self.folder / "a.vec", self.folder / name)


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (["README.md", "b.vec", "model.bin", "c.vec.gz"], "model.bin"),
        (["b.vec", "c.vec.gz"], "b.vec"),
        (["c.vec.gz", ".gitattributes"], "c.vec.gz"),
    ],
)
def test_the_one_file_of_a_hub_repository_is_fetched_at_its_revision(
    vec, monkeypatch, names, taken
):
    hub = Hub(monkeypatch, vec.parent, names)
    assert vector_file(settings(hub_id="a/b", hub_revision="012")) == vec.parent / taken
    assert hub.asked == [("a/b", "012", vector_source.HUB_TIMEOUT_S), ("a/b", taken, "012")]


@pytest.mark.parametrize(
    ("names", "held"), [(["README.md"], "none"), (["a.bin", "b.bin"], "a.bin, b.bin")]
)
def test_a_repository_without_one_file_of_vectors_is_refused(vec, monkeypatch, names, held):
    hub = Hub(monkeypatch, vec.parent, names)
    with pytest.raises(
        InputError,
        match=f"embedding.hub_id = 'a/b'.*{held}",
    ):
        vector_file(settings(hub_id="a/b", hub_revision="012"))
    assert len(hub.asked) == 1


def test_hub_offline_is_honoured(monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        InputError, match=r"embedding\.hub_id = 'a/b'.*offline mode.*embedding\.path"
    ) as caught:
        vector_file(settings(hub_id="a/b", hub_revision="012"))
    assert "\n" not in str(caught.value)


def test_without_a_hub_id_the_path_is_meant(monkeypatch):
    hub = Hub(monkeypatch, None, [])
    assert str(vector_file(settings())) == "a.vec"
    assert hub.asked == []


def test_a_hub_file_needs_its_revision():
    with pytest.raises(InputError, match=r"embedding\.hub_revision is empty; needed with hub_id"):
        settings(hub_id="a/b")
    assert settings(hub_id="a/b", source="random").hub_id == "a/b"


def test_a_window_of_counts_has_a_limit():
    with pytest.raises(
        InputError, match=r"embedding\.window = 101; allowed with source counts: at most 100"
    ):
        settings(window=101, source="counts")
    assert settings(window=101).window == 101


@pytest.mark.parametrize("source", ["file", "random"])
def test_an_empty_hub_id_is_refused(source):
    with pytest.raises(
        InputError, match=r"embedding\.hub_id = ''; allowed: null, or a repository of the hub$"
    ) as caught:
        settings(hub_id="", source=source)
    assert "\n" not in str(caught.value)


def test_a_word_has_equal_rows_in_both_formats(train_bin, tmp_path):
    path = train_bin()
    words = ["the", "日本語", "cats"]
    table, *_ = read_vectors(path, words, 7)
    text = "".join(
        f"{word} {' '.join(map(repr, row.tolist()))}\n"
        for word, row in zip(words, table, strict=True)
    )
    (tmp_path / "b.vec").write_text(f"3 7\n{text}")
    assert np.array_equal(read_vectors(tmp_path / "b.vec", words, 7)[0], table)
