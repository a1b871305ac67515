"""Files, dataset folders and the hub; bad data is one line with its position."""

import gzip
import os
import tempfile
from pathlib import Path

import datasets
import huggingface_hub
import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from tinylm.base.config import InputError
from tinylm.download.folders import hub_folder, local_files
from tinylm.download.readers import read_file


def write_parquet(path, rows, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"text": rows, **columns}), path, row_group_size=2)
    return path


def write(path, content):
    content = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(content) if path.name.lower().endswith(".gz") else content)
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
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "datasets")
    monkeypatch.setattr(datasets.config, "HF_UPDATE_DOWNLOAD_COUNTS", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.load, "get_session", lambda: pytest.fail("contacted a server"))
    return folder


def test_parquet_without_a_server_or_a_cache(tmp_path, home):
    path = write_parquet(
        tmp_path / "a [1] é*.parquet", ["one", "two", "three"], __index_level_0__=[1, 2, 3]
    )
    assert read(path) == ["one", "two", "three"]
    assert read(write_parquet(tmp_path / "b.parquet", pa.array([], pa.string()))) == []
    assert not list(home.rglob("*"))


@pytest.mark.parametrize("name", ["a.jsonl", "A.JSONL.gz"])
def test_jsonl(tmp_path, name):
    lines = b'\xef\xbb\xbf{"text": "one\\u2028", "n": 1}\n\n{"text": "two"}\r\n{"text": "three"}'
    assert read(write(tmp_path / name, lines)) == ["one\u2028", "two", "three"]


TEXTS = {
    "\n\none\nmore\n \t\ntwo\r\n\r\nthree": ["one\nmore", "two", "three"],
    "one\n\nmore\n<|endoftext|>\n<|endoftext|>\ntwo\n<|endoftext|>\n": ["one\n\nmore", "two"],
    "One. <|endoftext|> Two.<|endoftext|>\nThree.<|endoftext|>\n": ["One.", "Two.", "Three."],
    "": [],
    "one\n\u200b\ntwo\n\ufeff \nthree\n": ["one", "two", "three"],
}  # fmt: skip
MARK = "<|endoftext|>"
STORIES_WITH_BLANK_LINES = st.lists(
    st.sampled_from(["one", "two\n\nparagraphs", "three\nlines"]), min_size=1, max_size=4
)
TABLES = {
    'id,text\n1,"One, a ""dog""\nran."\n\n2,Two\n3,""\n4,null\n': ['One, a "dog"\nran.', "Two", "", "null"],
    "\ufeffid;text\r\n1;One day, a dog\r\n": ["One day, a dog"],
    "text\tid\nOne; two, three\t1": ["One; two, three"],
    "text\n007\n1.50\n": ["007", "1.50"],
    "text\rOne day\rTwo days\r": ["One day", "Two days"],
}  # fmt: skip


@pytest.mark.parametrize(("content", "stories"), TEXTS.items())
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_text_by_blank_lines_or_by_marks(tmp_path, name, content, stories):
    assert [story.strip() for story in read(write(tmp_path / name, content))] == stories


@given(stories=STORIES_WITH_BLANK_LINES, ends=st.sampled_from(["", "\n", MARK, f"{MARK}\n"]))
def test_every_story_between_marks_is_read_whether_or_not_a_mark_ends_the_file(stories, ends):
    with tempfile.TemporaryDirectory() as folder:
        content = f"\n{MARK}\n".join(stories) + ends
        if len(stories) == 1 and MARK not in ends:
            content = f"{MARK}\n{content}"  # without a mark, blank lines separate stories
        found = read(write(Path(folder) / "a.txt", content))
    assert [story.strip() for story in found] == stories


@pytest.mark.parametrize(("content", "stories"), TABLES.items())
@pytest.mark.parametrize("name", ["a.csv", "a.CSV.gz"])
def test_csv(tmp_path, name, content, stories):
    assert read(write(tmp_path / name, content)) == stories


def test_bad_csv_and_other_formats_are_refused(tmp_path):
    bad = (
        "id,story\n1,a\n", "text,text\na,b\n", "text\nA, b\n", "text,id\na,b,c\n", "id,text\n1\n",
        'id,text\n1,"a\n', 'id,text\n1,"a\n2,b\n3,"c\n', 'text\n"A" he said\n',
    )  # fmt: skip
    for content in bad:
        refusal(write(tmp_path / "a.csv", content))
    refusal(write(tmp_path / "a.xlsx", "text\n"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": "café"}\n'),
        ("a.csv", "id,text\n1,café\n"),
        ("a.txt", "one\n\ntwo\na café\n"),
    ],
)
def test_bytes_that_are_not_utf8_are_refused_and_never_replaced(tmp_path, name, content):
    for encoding in ("cp1252", "utf-16", "utf-16-le"):
        assert "UTF-8" in refusal(write(tmp_path / name, content.encode(encoding)))
    assert "café" in read(write(tmp_path / name, content))[-1]


BAD_ROWS = (
    "{", '"text"', "[" * 100_000, '{"text": 3.5}', '{"text": null}', '{"story": "a"}', '{"text": "a", "text": "b"}',
    '{"text": {"en": "a"}}', "[]", '["text", "a"]',
)  # fmt: skip


@pytest.mark.parametrize("row", BAD_ROWS)
def test_a_bad_json_line_is_named(tmp_path, row):
    message = refusal(write(tmp_path / "a.jsonl", '{"text": "one"}\n' + row + "\n"))
    assert "line 2" in message or "row 2" in message


def test_bad_parquet_rows_and_columns(tmp_path):
    path = tmp_path / "a.parquet"
    assert "row 4" in refusal(write_parquet(path, ["a", "b", "c", None]))
    assert "row 1" in refusal(write_parquet(path, [1, 2]))
    refusal(write_parquet(path, ["a"], id=[1]), "story")
    path.write_bytes(b"[" * 20_000 + path.read_bytes())
    refusal(path)


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl.gz"])
@pytest.mark.parametrize("length", [3, 100, -5])
def test_a_truncated_file_is_refused(tmp_path, name, length):
    path = tmp_path / name
    if name == "a.parquet":
        write_parquet(path, ["one", "two"] * 500)
    else:
        write(path, "".join(f'{{"text": "{i * i * 7919 % 1000}"}}\n' for i in range(200)))
    os.truncate(path, length % path.stat().st_size)
    refusal(path)


def test_a_folder_by_its_file_names(tmp_path, home):
    names = ("train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001")
    for name in names:
        write_parquet(tmp_path / "data" / f"{name}.parquet", ["a"])
    splits = local_files(tmp_path)
    assert [path.stem for path in splits["train"]] == list(names[:2])
    assert [path.stem for path in splits["validation"]] == [names[2]]
    assert not list(home.rglob("*"))


README = """---
configs:
- {config_name: default, data_files: [{split: train, path: "%s"}, {split: validation, path: first.jsonl}]}
---
"""


def test_a_folder_by_its_readme_and_from_local_files_only(tmp_path):
    for name in ("first.jsonl", "second.jsonl"):
        write(tmp_path / name, '{"text": "a"}\n')
    write(tmp_path / "README.md", README % "second.jsonl")
    names = {split: path.name for split, [path] in local_files(tmp_path).items()}
    assert names == {"train": "second.jsonl", "validation": "first.jsonl"}


def test_a_readme_that_names_files_outside_its_folder_is_refused(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    outside = write(tmp_path / "outside.jsonl", '{"text": "a"}\n')
    write(folder / "first.jsonl", '{"text": "a"}\n')
    for name in ("../outside.jsonl", str(outside), "https://localhost:1/a.jsonl"):
        write(folder / "README.md", README % name)
        with pytest.raises(InputError, match="folder"):
            local_files(folder)


def test_linked_files_are_read_since_dvc_hashes_their_content(tmp_path):
    """As with `dvc config cache.type symlink` and `dvc add FOLDER`."""
    cached = write(tmp_path / "3fd6", '{"text": "a"}\n')
    folder = tmp_path / "folder"
    folder.mkdir()
    write(folder / "train.jsonl", '{"text": "a"}\n')
    (folder / "train-2.jsonl").symlink_to(cached)
    files = local_files(folder)["train"]
    assert [path.name for path in files] == ["train-2.jsonl", "train.jsonl"]
    assert [read(path) for path in files] == [["a"], ["a"]]
    (tmp_path / "linked").symlink_to(folder)
    assert len(local_files(tmp_path / "linked")["train"]) == 2


@pytest.mark.parametrize(
    "skipped", ["set/sub/.dvc/", "set/.dvc/", "set/.dvcignore", "set/sub/.dvcignore", "set/linked"]
)
def test_what_dvc_does_not_hash_is_refused(tmp_path, skipped):
    folder = tmp_path / "set"
    for place in (folder, folder / "sub", tmp_path / "versions"):
        place.mkdir()
        write(place / "train.jsonl", '{"text": "a"}\n')
    assert local_files(folder)
    if skipped.endswith("/"):
        (tmp_path / skipped).mkdir()
    elif skipped.endswith("linked"):
        (tmp_path / skipped).symlink_to(tmp_path / "versions")
    else:
        write(tmp_path / skipped, "*.txt")
    with pytest.raises(InputError, match=skipped.strip("/")) as caught:
        local_files(folder)
    assert "\n" not in str(caught.value)
    assert local_files(folder, is_downloaded=True)  # the hub's cache is not DVC's to hash


def test_files_that_a_dvcignore_above_leaves_out_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".dvc").mkdir()
    for name in ("train.jsonl", "private/train.jsonl", ".train.tmp.jsonl"):
        (tmp_path / "inputs/set" / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / "inputs/set" / name, '{"text": "a"}\n')
    write(tmp_path / ".dvcignore", ".*.tmp*\n")
    assert local_files(Path("inputs/set"))
    for place, pattern in ((".", "/inputs/set/private/"), ("inputs", "private")):
        write(tmp_path / place / ".dvcignore", pattern)
        with pytest.raises(InputError, match=r"\.dvcignore.*private/train\.jsonl"):
            local_files(Path("inputs/set"))
        write(tmp_path / place / ".dvcignore", "")


def test_folders_that_are_no_datasets(tmp_path):
    with pytest.raises(InputError, match=str(tmp_path)):
        local_files(tmp_path)
    write(tmp_path / "test.jsonl", '{"text": "a"}\n')
    with pytest.raises(InputError, match="train"):
        local_files(tmp_path)
    with pytest.raises(InputError, match=r"data\.path"):
        local_files(Path("a/b"))  # never from the hub
    # patterns for the library: another folder's files, or none
    for name in ("all*", "a[1]", "a::b"):
        write_parquet(tmp_path / name / "a.parquet", ["a"])
        with pytest.raises(InputError, match=r"data\.path"):
            local_files(tmp_path / name)


@pytest.mark.parametrize(
    ("files", "patterns"),
    [(["a.jsonl", "b.parquet"], {"*.parquet"}), (["a.csv"], {"*.csv", "*.txt", "*.jsonl.gz"})],
)
def test_the_hub_is_downloaded_at_its_revision_from_parquet_alone_if_it_has_some(
    tmp_path, monkeypatch, files, patterns
):
    def snapshot_download(hub_id, *, repo_type, revision, allow_patterns):
        assert (hub_id, repo_type, revision) == ("a/b", "dataset", "0123")
        assert patterns <= set(allow_patterns)
        assert len(patterns) > 1 or len(allow_patterns) == 2  # and README.md
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "list_repo_files", lambda *_, **__: files)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert hub_folder("a/b", "0123") == tmp_path


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"data\.hub") as caught:
        hub_folder("a/b", "0123")
    assert "\n" not in str(caught.value)
