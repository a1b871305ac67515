import contextlib
import gzip
import itertools
import json
import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tinylm.base.config import InputError
from tinylm.download import readers
from tinylm.download.readers import hub_splits, local_splits, read_file, read_hub


def parquet(path, rows, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"text": rows, **columns}), path, row_group_size=2)
    return path


def read(path, column="text"):
    return list(read_file(Path(path), column))


def refused(path, column="text"):
    with pytest.raises(InputError) as caught:
        read(path, column)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    """A home of its own, to see that reading local data writes nothing there."""
    import datasets

    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "datasets")
    return folder


def test_parquet(tmp_path, home, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_UPDATE_DOWNLOAD_COUNTS", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.load, "get_session", lambda: pytest.fail("asked a server"))
    path = parquet(tmp_path / "a [1] é*.parquet", ["one", "two", "three"], other=[1, 2, 3])
    assert read(path) == ["one", "two", "three"]
    assert not list(home.rglob("*"))


@pytest.mark.parametrize(("opener", "name"), [(open, "a.jsonl"), (gzip.open, "A.JSONL.gz")])
def test_jsonl(tmp_path, opener, name):
    with opener(tmp_path / name, "wb") as handle:
        handle.write(
            b'\xef\xbb\xbf{"text": "one\\u2028", "n": 1}\n\n{"text": "two"}\r\n{"text": "three"}'
        )
    assert read(tmp_path / name) == ["one\u2028", "two", "three"]


def test_txt_by_blank_lines_or_by_marks(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\n\none\nmore\n \t\n\ntwo\r\n\r\nthree")
    assert read(path) == ["one\nmore\n", "two\r\n", "three"]
    path.write_text("one\n\nmore\n<|endoftext|>\n<|endoftext|>\ntwo\n<|endoftext|>\n")
    assert read(path) == ["one\n\nmore\n", "two\n"]
    path.write_text(
        "One. <|endoftext|> Two.<|endoftext|>\nThree.<|endoftext|>\n"
    )  # marks within a line part too
    assert [story.strip() for story in read(path)] == ["One.", "Two.", "Three."]
    path.write_bytes("the dog".encode("utf-16"))
    with pytest.raises(InputError, match="UTF-16; allowed: UTF-8"):
        read(path)


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": "café"}\n', ", line 2, byte 14"),
        ("a.csv", "id,text\n1,café\n", ", line 2, byte 6"),
        ("a.txt", "one\n\ntwo\na café\n", ", line 4, byte 6"),
        ("b.txt", "one\n<|endoftext|>\ntwo\na café\n<|endoftext|>\n", ", line 4, byte 6"),
    ],
)
def test_bytes_that_are_not_utf8_are_named_and_never_replaced(tmp_path, name, content, place):
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    assert refused(tmp_path / name).startswith(
        f"{place}: 0xe9 is not UTF-8; save the file as UTF-8"
    )
    (tmp_path / name).write_bytes(content.encode())
    assert "café" in read(tmp_path / name)[-1]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.txt"])
def test_utf16_is_named(tmp_path, name):
    (tmp_path / name).write_bytes("text\nthe dog".encode("utf-16"))
    assert refused(tmp_path / name) == ": UTF-16; allowed: UTF-8"


@pytest.mark.parametrize(
    ("content", "stories"),
    [
        (
            'id,text\n1,"One day, a ""dog""\nran."\n\n2,Two\n3,""\n',
            ['One day, a "dog"\nran.', "Two", ""],
        ),
        ("\ufeffid;text\r\n1;One day, a dog\r\n", ["One day, a dog"]),
        ("text\tid\nOne; two, three\t1", ["One; two, three"]),
        ("text\nOne day\nTwo days\n", ["One day", "Two days"]),
    ],
)
def test_csv(tmp_path, content, stories):
    (tmp_path / "a.csv").write_bytes(content.encode())
    assert read(tmp_path / "a.csv") == stories
    with gzip.open(tmp_path / "a.CSV.gz", "wb") as handle:
        handle.write(content.encode())
    assert read(tmp_path / "a.CSV.gz") == stories


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ", line 1: no column 'text' (data.column); columns: none"),
        (
            "id,story\n1,a\n",
            ", line 1: no column 'text' (data.column); columns: id, story; the first line holds their",
        ),
        (
            f"{'word ' * 30}\n",
            f", line 1: no column 'text' (data.column); columns: {'word ' * 8}; the first line holds",
        ),
        (
            "text\nOne day, a dog\n",
            ", line 2: 2 fields; the header has 1; a text with a ',' in it belongs in double",
        ),
        ("id,text\n1,a\n2\n", ", line 3: 1 fields; the header has 2"),
        (
            'id,text\n1,"a\n2,b\n3,c\n',
            ", line 4: not CSV (unexpected end of data); is a double quote left open?",
        ),
        ('text\n"a"b\n', ", line 2: not CSV (',' expected after '\"')"),
    ],
)
def test_bad_csv(tmp_path, content, message):
    (tmp_path / "a.csv").write_text(content)
    assert refused(tmp_path / "a.csv").startswith(message)


def test_a_parquet_file_without_rows_is_read_as_no_stories(tmp_path):
    path = parquet(tmp_path / "a.parquet", pa.array([], pa.string()))
    assert read(path) == []
    assert refused(path, "story") == ": no column 'story' (data.column); columns: text"


def test_reading_is_lazy(tmp_path):
    with open(tmp_path / "a.jsonl", "w") as handle:
        handle.write('{"text": "one"}\n' * 3 + "broken\n")
    assert list(itertools.islice(read_file(tmp_path / "a.jsonl", "text"), 3)) == ["one"] * 3
    parquet(tmp_path / "a.parquet", ["one"] * 5000)
    stories = read_file(tmp_path / "a.parquet", "text")
    assert next(stories) == "one"
    stories.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", ", line 2: not JSON"),
        ('"text"', ", line 2: holds str; allowed: one object per line"),
        ("[" * 100_000, ", line 2: not JSON"),
        ('{"text": null}', ", line 2: column 'text' holds null; allowed: text"),
        ('{"text": 3.5}', ", line 2: column 'text' holds float '3.5'; allowed: text"),
        ('{"story": "a", "id": 1}', ", line 2: no column 'text' (data.column); columns: story, id"),
        ('{"text": "a"', ", line 2: not JSON"),
        ('{"text": ' + "9" * 5000 + "}", ", line 2: not JSON"),
    ],
)
def test_bad_json_line(tmp_path, line, message):
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n' + line + "\n")
    assert message in refused(tmp_path / "a.jsonl")


def test_bad_parquet_rows(tmp_path):
    assert refused(parquet(tmp_path / "a.parquet", ["a", "b", "c", None])) == (
        ", row 4: column 'text' holds null; allowed: text"
    )
    assert refused(parquet(tmp_path / "a.parquet", [1, 2])).startswith(
        ", row 1: column 'text' holds int '1'"
    )
    path = parquet(tmp_path / "a.parquet", ["a"], id=[1])
    assert refused(path, "story") == ": no column 'story' (data.column); columns: text, id"


@pytest.mark.parametrize("keep", [0, 3, 100, -1])
def test_truncated_parquet(tmp_path, keep):
    path = parquet(tmp_path / "a.parquet", ["one", "two"] * 500)
    os.truncate(path, keep if keep >= 0 else path.stat().st_size - 5)
    assert "damaged or truncated parquet file" in refused(path)


def test_damage_inside_a_parquet_file(tmp_path):
    rows = [f"story {i} " * 50 for i in range(400)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": rows}), path, row_group_size=100, compression="gzip")
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 400] = bytes(400)
    path.write_bytes(content)
    assert re.search(r", after row \d+: damaged or truncated parquet file", refused(path))


@pytest.mark.parametrize("keep", [3, 12, 400, -5])
def test_truncated_gzip(tmp_path, keep):
    path = tmp_path / "a.jsonl.gz"
    with gzip.open(path, "wt") as handle:
        handle.writelines(
            json.dumps({"text": f"story {i} {i * i * 7919 % 1000}"}) + "\n" for i in range(200)
        )
    os.truncate(path, keep if keep > 0 else path.stat().st_size + keep)
    assert re.search(r"line \d+", refused(path))


def test_gzip_that_is_none(tmp_path):
    (tmp_path / "a.jsonl.gz").write_text("plain")
    assert "after line 0: damaged or truncated gzip" in refused(tmp_path / "a.jsonl.gz")


def test_line_and_story_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "MAX_STORY_BYTES", 1000)
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n' + "x" * 1001)
    assert ", line 2: longer than 1000 bytes" in refused(tmp_path / "a.jsonl")
    (tmp_path / "a.txt").write_text("word word\n" * 101)
    assert ", line 101: a story longer than 1000 bytes" in refused(tmp_path / "a.txt")


def test_other_formats_are_refused(tmp_path):
    (tmp_path / "a.xlsx").write_text("text\n")
    assert "allowed: .parquet, .jsonl, .jsonl.gz, .csv, .csv.gz, .txt" in refused(
        tmp_path / "a.xlsx"
    )


def test_folder_by_file_names(tmp_path, home):
    parquet(tmp_path / "data" / "train-00000-of-00002.parquet", ["a"])
    parquet(tmp_path / "data" / "train-00001-of-00002.parquet", ["b"])
    parquet(tmp_path / "data" / "validation-00000-of-00001.parquet", ["c"])
    found = local_splits(tmp_path)
    assert {split: [path.name for path in files] for split, files in found.items()} == {
        "train": ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"],
        "validation": ["validation-00000-of-00001.parquet"],
    }
    assert not list(home.rglob("*"))


def test_folder_by_its_readme(tmp_path):
    for name in ("first.jsonl", "second.jsonl"):
        (tmp_path / name).write_text('{"text": "a"}\n')
    (tmp_path / "README.md").write_text(
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: second.jsonl\n"
        "  - split: validation\n    path: first.jsonl\n---\n"
    )
    found = local_splits(tmp_path)
    assert [found["train"][0].name, found["validation"][0].name] == ["second.jsonl", "first.jsonl"]


def test_folders_that_are_no_datasets(tmp_path):
    with pytest.raises(InputError, match="not laid out as a dataset"):
        local_splits(tmp_path)
    (tmp_path / "test.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(InputError, match="no split 'train'; splits: test"):
        local_splits(tmp_path)
    (tmp_path / "train.json").write_text('{"text": "a"}')
    (tmp_path / "test.jsonl").unlink()
    with pytest.raises(InputError, match=r"train\.json: not a supported format"):
        local_splits(tmp_path)


def test_missing_path_never_goes_to_the_hub(monkeypatch):
    import datasets

    monkeypatch.setattr(
        datasets, "load_dataset_builder", lambda *_, **__: pytest.fail("asked the library")
    )
    with pytest.raises(
        InputError, match=r"data.path = 'roneneldan/TinyStories': no such file or folder"
    ):
        local_splits(Path("roneneldan/TinyStories"))


def test_hub_that_cannot_be_reached(monkeypatch):
    import huggingface_hub

    asked = []

    def unreachable(self, hub_id, revision, timeout):
        asked.append((hub_id, revision, timeout))
        raise ConnectionError("no network\nand more")

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", unreachable)
    with pytest.raises(
        InputError, match=r"data.hub_id = 'a/b'.*no network.*data.source: local"
    ) as caught:
        hub_splits("a/b", "0123456789")
    assert "\n" not in str(caught.value)
    assert asked == [("a/b", "0123456789", readers.HUB_TIMEOUT_S)]


def test_hub_offline_is_honoured(monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        InputError, match=r"the hub cannot be read .*offline mode.*data.source: local"
    ):
        hub_splits("a/b", "0123456789")


class Hub:
    """Stands in for `datasets` where it would reach the hub."""

    def __init__(self, batches):
        self.batches, self.calls = batches, []

    def load_dataset(self, name, **keys):
        keys.pop("cache_dir")
        self.calls.append((name, keys))
        return self

    def iter(self, batch_size):
        for batch in self.batches:
            if isinstance(batch, Exception):
                raise batch
            yield batch


def test_hub_is_streamed_at_the_pinned_revision(tmp_path, monkeypatch):
    import datasets

    monkeypatch.chdir(tmp_path)
    (tmp_path / "a" / "b").mkdir(
        parents=True
    )  # a local folder of the same name is not what is meant
    hub = Hub([{"text": ["one", "two"]}, {"text": ["three"]}, OSError("connection reset")])
    monkeypatch.setattr(datasets, "load_dataset", hub.load_dataset)
    stories = read_hub("a/b", "0123456789", "train", "text")
    assert list(itertools.islice(stories, 3)) == ["one", "two", "three"]
    with pytest.raises(
        InputError, match=r"a/b@01234567, split 'train', after row 3: .*connection reset"
    ):
        next(stories)
    assert hub.calls == [
        ("hf://datasets/a/b", {"revision": "0123456789", "split": "train", "streaming": True})
    ]


class OneDataset:
    """The library `datasets` over a hub with one dataset in it."""

    def __init__(self, splits: dict[str, list[dict]], error: Exception | None = None) -> None:
        self.splits, self.error, self.asked = splits, error, []

    def load_dataset_builder(self, name, **options):
        self.asked.append((name, options))
        config = type("Config", (), {"data_files": dict.fromkeys(self.splits)})
        return type("Builder", (), {"config": config})

    def load_dataset(self, name, **options):
        self.asked.append((name, options))
        if self.error:
            raise self.error
        import datasets

        rows = self.splits[options["split"]]
        return datasets.IterableDataset.from_generator(lambda: iter(rows))


@pytest.fixture
def hub(monkeypatch):
    import huggingface_hub

    there = OneDataset(
        {"train": [{"text": "one"}, {"text": "two"}], "validation": [{"text": None}]}
    )
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *_, **__: None)
    monkeypatch.setattr(readers, "_datasets", lambda: contextlib.nullcontext((there, "cache")))
    return there


def test_the_hubs_splits_are_those_of_the_dataset(hub):
    assert hub_splits("a/b", "0123") == ["train", "validation"]
    assert hub.asked == [("hf://datasets/a/b", {"revision": "0123", "cache_dir": "cache"})]
    hub.splits = {"test": []}
    with pytest.raises(InputError) as caught:
        hub_splits("a/b", "0123")
    assert (
        str(caught.value) == "data.hub_id = 'a/b', revision '0123': no split 'train'; splits: test"
    )


def test_the_hubs_stories_are_streamed(hub):
    assert list(read_hub("a/b", "0123456789", "train", "text")) == ["one", "two"]
    wanted = {"revision": "0123456789", "split": "train", "streaming": True, "cache_dir": "cache"}
    assert hub.asked == [("hf://datasets/a/b", wanted)]
    with pytest.raises(InputError, match=r"^a/b@01234567, split 'validation'.*text"):
        list(read_hub("a/b", "0123456789", "validation", "text"))
    hub.error = OSError("the line is cut\nin two")
    with pytest.raises(InputError) as caught:
        list(read_hub("a/b", "0123456789", "train", "text"))
    assert str(caught.value) == (
        "a/b@01234567, split 'train': reading from the hub broke off; run again, or use data.source: local "
        "(OSError: the line is cut)"
    )
