"""Files, dataset folders and the hub are read by `datasets`; bad data is one line with its place."""

import gzip
import os
import re
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tinylm.base.config import InputError
from tinylm.download.readers import hub_folder, local_splits, read_file


def write_parquet(path, rows, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"text": rows, **columns}), path, row_group_size=2)
    return path


def read(path, column="text"):
    return list(read_file(Path(path), column))


def refusal(path, column="text"):
    """The message of the InputError, which must be one line that begins with the file."""
    with pytest.raises(InputError) as caught:
        read(path, column)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    """A cache folder of its own, to see that reading local data writes nothing there."""
    import datasets

    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "datasets")
    monkeypatch.setattr(datasets.config, "HF_UPDATE_DOWNLOAD_COUNTS", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.load, "get_session", lambda: pytest.fail("contacted a server"))
    return folder


def test_parquet_without_a_server_or_a_cache(tmp_path, home):
    path = write_parquet(tmp_path / "a [1] é*.parquet", ["one", "two", "three"], other=[1, 2, 3])
    assert read(path) == ["one", "two", "three"]
    assert not list(home.rglob("*"))


def test_a_parquet_file_without_rows_has_no_stories(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", pa.array([], pa.string()))
    assert read(path) == []


@pytest.mark.parametrize(("opener", "name"), [(open, "a.jsonl"), (gzip.open, "A.JSONL.gz")])
def test_jsonl(tmp_path, opener, name):
    lines = b'\xef\xbb\xbf{"text": "one\\u2028", "n": 1}\n\n{"text": "two"}\r\n{"text": "three"}'
    with opener(tmp_path / name, "wb") as handle:
        handle.write(lines)
    assert read(tmp_path / name) == ["one\u2028", "two", "three"]


def test_text_by_blank_lines_or_by_marks(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\n\none\nmore\n \t\n\ntwo\r\n\r\nthree")
    assert read(path) == ["one\nmore\n", "two\n", "three"]
    path.write_text("one\n\nmore\n<|endoftext|>\n<|endoftext|>\ntwo\n<|endoftext|>\n")
    assert [story.strip() for story in read(path)] == ["one\n\nmore", "two"]
    path.write_text("One. <|endoftext|> Two.<|endoftext|>\nThree.<|endoftext|>\n")
    assert [story.strip() for story in read(path)] == ["One.", "Two.", "Three."]
    path.write_text("")
    assert read(path) == []
    with gzip.open(tmp_path / "b.txt.gz", "wt") as handle:
        handle.write("one\n\ntwo\n")
    assert read(tmp_path / "b.txt.gz") == ["one\n", "two\n"]


@pytest.mark.parametrize(
    ("content", "stories"),
    [
        (
            'id,text\n1,"One day, a ""dog""\nran."\n\n2,Two\n3,""\n4,null\n',
            ['One day, a "dog"\nran.', "Two", "", "null"],
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
    "content",
    ["id,story\n1,a\n", "text\nOne day, a dog\n", "text,id\na,b,c\n", 'id,text\n1,"a\n2,b\n'],
)
def test_bad_csv(tmp_path, content):
    (tmp_path / "a.csv").write_text(content)
    refusal(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": "café"}\n', 2),
        ("a.csv", "id,text\n1,café\n", 2),
        ("a.txt", "one\n\ntwo\na café\n", 4),
        ("b.txt", "one\n<|endoftext|>\ntwo\na café\n<|endoftext|>\n", 4),
    ],
)
def test_bytes_that_are_not_utf8_are_named_and_never_replaced(tmp_path, name, content, line):
    path = tmp_path / name
    path.write_bytes(content.encode("latin-1"))
    assert refusal(path).startswith(f", line {line}: byte ")
    path.write_bytes(content.encode("utf-16"))
    assert "UTF-8" in refusal(path)
    path.write_bytes(content.encode())
    assert "café" in read(path)[-1]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        '"text"',
        "[" * 100_000,
        '{"text": 3.5}',
        '{"text": ["a"]}',
        '{"text": "a"',
        '{"text": ' + "9" * 5000 + "}",
    ],
)
def test_a_bad_json_line_is_named(tmp_path, line):
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n' + line + "\n")
    assert refusal(tmp_path / "a.jsonl").startswith(", line 2: ")


@pytest.mark.parametrize("line", ['{"text": null}', '{"story": "a", "id": 1}'])
def test_a_row_without_a_text_is_named(tmp_path, line):
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n' + line + "\n")
    assert refusal(tmp_path / "a.jsonl").startswith(", row 2: column 'text' holds null")


def test_bad_parquet_rows_and_columns(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", ["a", "b", "c", None])
    assert refusal(path).startswith(", row 4: column 'text' holds null")
    assert refusal(write_parquet(tmp_path / "a.parquet", [1, 2])).startswith(", row 1: ")
    path = write_parquet(tmp_path / "a.parquet", ["a"], id=[1])
    assert "columns: text, id" in refusal(path, "story")


@pytest.mark.parametrize("keep", [0, 3, 100, -5])
def test_a_truncated_parquet_file(tmp_path, keep):
    path = write_parquet(tmp_path / "a.parquet", ["one", "two"] * 500)
    os.truncate(path, keep if keep >= 0 else path.stat().st_size + keep)
    assert "after row 0" in refusal(path)


def test_damage_inside_a_parquet_file(tmp_path):
    rows = [f"story {i} " * 50 for i in range(400)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": rows}), path, row_group_size=100, compression="gzip")
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 400] = bytes(400)
    path.write_bytes(content)
    assert re.match(r", after row \d+: ", refusal(path))


@pytest.mark.parametrize("keep", [3, 12, 200, -5])
def test_a_damaged_gzip_file(tmp_path, keep):
    path = tmp_path / "a.jsonl.gz"
    with gzip.open(path, "wt") as handle:
        handle.writelines(f'{{"text": "story {i} {i * i * 7919 % 1000}"}}\n' for i in range(200))
    os.truncate(path, keep if keep > 0 else path.stat().st_size + keep)
    assert "gzip" in refusal(path)
    path.write_text("plain")
    assert "gzip" in refusal(path)


def test_other_formats_are_refused(tmp_path):
    (tmp_path / "a.xlsx").write_text("text\n")
    assert "allowed: .parquet" in refusal(tmp_path / "a.xlsx")


def test_reading_is_lazy(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", ["one"] * 5000 + [None])
    assert list(islice(read_file(path, "text"), 3000)) == ["one"] * 3000


def test_a_folder_by_its_file_names(tmp_path, home):
    for name in ("train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001"):
        write_parquet(tmp_path / "data" / f"{name}.parquet", ["a"])
    splits = local_splits(tmp_path)
    assert {split: [path.name for path in files] for split, files in splits.items()} == {
        "train": ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"],
        "validation": ["validation-00000-of-00001.parquet"],
    }
    assert not list(home.rglob("*"))


README = """---
configs:
- config_name: default
  data_files:
  - split: train
    path: {train}
  - split: validation
    path: first.jsonl
---
"""


def test_a_folder_by_its_readme(tmp_path):
    for name in ("first.jsonl", "second.jsonl"):
        (tmp_path / name).write_text('{"text": "a"}\n')
    (tmp_path / "README.md").write_text(README.format(train="second.jsonl"))
    splits = local_splits(tmp_path)
    assert splits["train"][0].name == "second.jsonl"
    assert splits["validation"][0].name == "first.jsonl"


def test_a_folder_reads_local_files_only(tmp_path):
    (tmp_path / "first.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "README.md").write_text(README.format(train="https://localhost:1/a.jsonl"))
    with pytest.raises(InputError):
        local_splits(tmp_path)


def test_folders_that_are_no_datasets(tmp_path):
    with pytest.raises(InputError, match="not laid out as a dataset"):
        local_splits(tmp_path)
    (tmp_path / "test.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(InputError, match="no split 'train'"):
        local_splits(tmp_path)
    (tmp_path / "train.json").write_text('{"text": "a"}')
    (tmp_path / "test.jsonl").unlink()
    with pytest.raises(InputError, match=r"train\.json: not a supported format"):
        local_splits(tmp_path)


def test_a_missing_path_never_goes_to_the_hub(monkeypatch):
    import datasets

    monkeypatch.setattr(datasets, "load_dataset_builder", lambda *_, **__: pytest.fail("called"))
    with pytest.raises(InputError, match=r"data\.path = 'roneneldan/TinyStories'"):
        local_splits(Path("roneneldan/TinyStories"))


@pytest.mark.parametrize(
    ("files", "patterns"),
    [
        (["README.md", "data/train-0.parquet", "train.txt"], ["README.md", "*.parquet"]),
        (["train.txt"], ["README.md", "*.parquet", "*.jsonl", "*.jsonl.gz", "*.csv"]),
    ],
)
def test_the_hub_is_downloaded_at_the_pinned_revision(tmp_path, monkeypatch, files, patterns):
    import huggingface_hub

    calls = []

    def snapshot_download(hub_id, *, allow_patterns, **options):
        calls.append((hub_id, options, allow_patterns[: len(patterns)]))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "list_repo_files", lambda *_, **__: files)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert hub_folder("a/b", "0123") == tmp_path
    assert calls == [("a/b", {"repo_type": "dataset", "revision": "0123"}, patterns)]


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch):
    import huggingface_hub

    def unreachable(*_, **__):
        raise ConnectionError("no network\nand more")

    monkeypatch.setattr(huggingface_hub, "list_repo_files", unreachable)
    with pytest.raises(InputError, match=r"data\.hub_id = 'a/b'.*data\.source: local") as caught:
        hub_folder("a/b", "0123")
    assert "\n" not in str(caught.value)
