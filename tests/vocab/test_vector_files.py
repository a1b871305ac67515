"""Files of vectors: `.bin` equal to fastText's own reader to the bit, `.vec` line by line, the hub."""

import gzip
import shutil
import struct
import unicodedata
from types import SimpleNamespace

import huggingface_hub
import numpy as np
import pytest

from tests.vocab.test_matrix import SETTINGS, replace
from tinylm.base.config import InputError
from tinylm.vocab.embedding.source import check_vectors, read_vectors, vector_file

IN_FILE = ["the", "cat", "naïve", "привет", "日本語", "😀", "a", "é", "dogs,", "</s>"]
OTHERS = ["catty", "приветы", "本", "e", "ü", "<cat>", "😀😀", "<", "x" * 90]
WORDS = IN_FILE + OTHERS
KINDS = {
    "skipgram": {"minn": 3, "maxn": 6},
    "shortest and longest": {"model": "cbow", "minn": 0, "maxn": 20},
    "no n-grams": {"minn": 0, "maxn": 0},
    "supervised, n-grams": {"supervised": True, "minn": 2, "maxn": 4, "wordNgrams": 2},
}


def read_by_fasttext(path, words=WORDS):
    import fasttext

    model = fasttext.load_model(str(path))
    return np.stack([model.get_word_vector(word) for word in words])


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("kind", KINDS)
def test_bin_vectors_equal_fasttexts_own_to_the_bit(train_bin, kind, version):
    path = train_bin(version=version, **KINDS[kind])
    table, is_listed = read_vectors(path, WORDS, 7)
    assert table.tobytes() == read_by_fasttext(path).tobytes()
    assert is_listed.tolist() == [word in IN_FILE for word in WORDS]
    has_vector = table.any(axis=1)
    assert has_vector[: len(IN_FILE)].all()
    if kind == "no n-grams":
        assert not has_vector[len(IN_FILE) :].any()


def test_words_in_decomposed_letters_are_found_in_composed_ones(train_bin, vec):
    words = ["naïve", "é", "cat"]
    path = vec("3 2\ncat 1 1\nnai\u0308ve 2 2\nE\u0301 3 3\n")
    assert rows_of(path, words) == {"cat": [1, 1], "naïve": [2, 2], "é": [3, 3]}
    path = vec("2 2\nnai\u0308ve 2 2\nnaïve 1 1\n")
    assert rows_of(path, words) == {"naïve": [1, 1]}

    path = train_bin(form="NFD")
    table, is_listed = read_vectors(path, words, 7)
    written = [unicodedata.normalize("NFD", word) for word in words]
    assert table.tobytes() == read_by_fasttext(path, written).tobytes()
    assert is_listed.all()


def test_a_cut_bin_file_is_refused(train_bin):
    path = train_bin(dim=2, bucket=3, minn=3, maxn=3)
    content = path.read_bytes()
    output_matrix = 17 + 4 * 2 * 20  # the vocabulary has more words than that
    for length in range(0, len(content) - output_matrix, 50):
        path.write_bytes(content[:length])
        with pytest.raises(InputError, match=r"a\.bin"):
            check_vectors(path, 2)


def test_no_buckets_mean_no_ngrams_whatever_their_length(train_bin):
    """As gensim writes a model without n-grams: no bucket, but lengths of n-grams."""
    path = train_bin(dim=2, bucket=0, minn=0, maxn=0)
    expected, _ = read_vectors(path, WORDS, 2)
    content = bytearray(path.read_bytes())
    content[2 * 4 + 9 * 4 : 2 * 4 + 11 * 4] = struct.pack("<ii", 4, 3)  # min_n, max_n
    path.write_bytes(content)
    assert np.array_equal(read_vectors(path, WORDS, 2)[0], expected)
    content[64:64] = bytes(8)  # two more numbers before those of the dictionary, as floret writes
    path.write_bytes(content)
    with pytest.raises(InputError, match="floret"):
        check_vectors(path, 2)


def test_another_width_and_quantised_models_are_refused(train_bin, tmp_path):
    import fasttext

    path = train_bin(supervised=True, minn=3, maxn=3, bucket=300)
    check_vectors(path, 7)
    with pytest.raises(InputError, match=r"a\.bin: expected .*embedding\.width = 8, got width 7"):
        check_vectors(path, 8)
    model = fasttext.load_model(str(path))
    model.quantize(input=str(tmp_path / "a.txt"), cutoff=280, retrain=False)
    model.save_model(str(tmp_path / "a.ftz"))
    (tmp_path / "a.ftz").rename(path)
    with pytest.raises(InputError, match=r"a\.bin: expected float32 vectors, got a quantised"):
        check_vectors(path, 7)


@pytest.fixture
def vec(tmp_path):
    def write(content, name="a.vec"):
        content = content if isinstance(content, bytes) else content.encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


def rows_of(path, words, width=2):
    table, _ = read_vectors(path, words, width)
    return {words[i]: table[i].tolist() for i in np.flatnonzero(table.any(axis=1))}


@pytest.mark.parametrize("name", ["a.vec", "a.vec.gz"])
def test_vec_rows_of_the_wanted_words(vec, name):
    path = vec("\ufeff4 2\nthe 0.5 -1 \n, 1e-3 2\nother x 1e39\n\u00a0é 1 1\n", name)
    check_vectors(path, 2)
    assert rows_of(path, ["the", ",", "cat"]) == {"the": [0.5, -1], ",": [np.float32(1e-3), 2]}


def test_the_first_row_of_a_word_counts_or_else_of_one_in_other_case(vec):
    path = vec("7 2\nParis 1 1\nPARIS 2 2\nRome 3 3\nrome 4 4\nROME 5 5\nrome 9 9\nthe 6 6\n")
    assert rows_of(path, ["paris", "rome"]) == {"paris": [1, 1], "rome": [4, 4]}
    rows = {"paris": [1, 1], "Rome": [3, 3], "rome": [4, 4], "The": [6, 6], "the": [6, 6]}
    assert rows_of(path, list(rows)) == rows


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", 1),
        ("2 3\na 1 1 1\n", 1),
        ("2 2\na 1 1\nb 2\n", 3),
        ("2 2\na 1 nan\n", 2),
        ("2 2\na 1 x\n", 2),
        (b"2 2\na 1 1\n\xff\xfe 1 1 1\n", 3),
    ],
)
def test_bad_vec_files_are_refused_with_the_line(vec, content, line):
    with pytest.raises(InputError, match="expected 9 rows"):
        read_vectors(vec("9 2\na 1 1\nb 2 2\n"), ["a", "b"], 2)
    with pytest.raises(InputError, match=rf"a\.vec, line {line}: "):
        read_vectors(vec(content), ["a", "b"], 2)
    if line == 1:
        with pytest.raises(InputError, match=r"a\.vec, line 1: "):
            check_vectors(vec(content), 2)


def test_a_missing_file_and_one_without_a_word_of_the_vocabulary_are_refused(vec, tmp_path):
    (tmp_path / "folder.vec").mkdir()
    for path in (tmp_path / "none.vec", tmp_path / "folder.vec"):
        with pytest.raises(InputError, match=r"embedding\.path"):
            read_vectors(path, ["the"], 2)
    with pytest.raises(InputError, match=r"a\.vec"):
        read_vectors(vec("1 2\nthe 1 2\n"), ["zebra"], 2)


@pytest.mark.parametrize(
    ("names", "file"),
    [
        (["README.md", "b.vec", "model.bin", "c.vec.gz"], "model.bin"),
        (["b.vec", "c.vec.gz"], "b.vec"),
        (["README.md"], None),
        (["a.bin", "b.bin"], None),
    ],
)
def test_the_one_file_of_a_hub_repository_is_read_at_its_revision(
    vec, monkeypatch, tmp_path, names, file
):
    source = vec("1 2\nthe 1 2\n")

    def model_info(self, hub_id, *, revision, **_):
        assert (hub_id, revision) == ("a/b", "0123")
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=name) for name in names])

    def hf_hub_download(hub_id, name, *, revision):
        assert (hub_id, revision) == ("a/b", "0123")
        return shutil.copy(source, tmp_path / name)

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", hf_hub_download)
    settings = replace(SETTINGS, hub="a/b@0123")
    if file:
        assert vector_file(settings) == tmp_path / file
        return
    with pytest.raises(InputError, match=r"embedding\.hub"):
        vector_file(settings)
