"""Files are whole or as before, wherever their writer fails; damaged ones are refused."""

import csv
import errno
import math
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinylm.base import files
from tinylm.base.config import InputError
from tinylm.base.files import atomic_folder, atomic_write, read_json, write_json


@pytest.mark.parametrize(("call", "renamed"), [("fsync", 0), ("replace", 0), ("fsync", 1)])
@pytest.mark.parametrize("old", [None, "old content"])
def test_a_file_is_whole_or_as_before_wherever_the_writer_fails(
    tmp_path, monkeypatch, old, call, renamed
):
    path = tmp_path / "folder" / "story.txt"
    if old is not None:
        path.parent.mkdir()
        path.write_text(old)
    before = getattr(os, call)
    answers = [before] * renamed

    def full(*arguments):
        if answers:
            return answers.pop()(*arguments)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space") as caught, atomic_write(path) as handle:
        handle.write("new é\n")
    assert caught.value.filename == str(path)
    content = path.read_text("utf-8") if path.exists() else None
    assert content == ("new é\n" if renamed else old)
    assert [p for p in path.parent.iterdir() if p != path] == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_interrupted_writer_leaves_nothing(tmp_path, error):
    with pytest.raises(error), atomic_write(tmp_path / "a.bin", "wb") as handle:  # noqa: PT012
        handle.write(b"half")
        raise error
    assert list(tmp_path.iterdir()) == []


def test_a_folder_replaces_the_old_one_whole_or_not_at_all(tmp_path):
    for content in ("first", "second"):
        with atomic_folder(tmp_path / "made") as folder:
            assert list(folder.iterdir()) == []
            (folder / "a").write_text(content)
    with pytest.raises(ValueError, match="stop"), atomic_folder(tmp_path / "made") as folder:  # noqa: PT012
        (folder / "a").write_text("third")
        raise ValueError("stop")
    assert (tmp_path / "made/a").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


@pytest.mark.parametrize("error", [PermissionError(13, "no"), KeyboardInterrupt()])
def test_a_folder_that_cannot_take_its_place_leaves_the_old_one(tmp_path, monkeypatch, error):
    (tmp_path / "made").mkdir()
    (tmp_path / "made/a").write_text("first")
    rename = os.rename

    def fails_for_the_new_one(source, target):
        if str(source).endswith(".tmp"):
            raise error
        rename(source, target)

    monkeypatch.setattr(os, "rename", fails_for_the_new_one)
    with pytest.raises(type(error)), atomic_folder(tmp_path / "made") as folder:
        (folder / "a").write_text("second")
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    assert (tmp_path / "made/a").read_text() == "first"


def test_json_keeps_the_order_and_has_no_nan(tmp_path):
    path = tmp_path / "a.json"
    numbers = [math.inf, np.float32(0.5), np.int64(3), np.bool_(True)]
    write_json(path, {"z": math.nan, "a": numbers, "m": {1: (-math.inf, True, None, "é")}})
    text = path.read_text("utf-8")
    assert "NaN" not in text
    assert "é" in text
    expected = {"z": None, "a": [None, 0.5, 3, True], "m": {"1": [None, True, None, "é"]}}
    assert read_json(path) == expected
    assert list(read_json(path)) == ["z", "a", "m"]


@pytest.mark.parametrize("content", [b"{", b"", b'{"a": 1} x', b"\xff", b"[" * 100_000, None])
def test_broken_or_missing_json_is_named(tmp_path, content):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json"):
        read_json(path, "train")


def test_a_missing_file_is_named_with_the_command_that_makes_it(tmp_path):
    with pytest.raises(InputError, match=r"a\.bin is missing; run dvc repro vocab$"):
        files.require(tmp_path / "a.bin", "vocab")
    with pytest.raises(InputError, match=r"dvc\.lock is missing; run dvc repro$"):
        files.require(tmp_path / "dvc.lock")


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1))
def test_any_text_survives_a_table(rows):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        files.write_csv(path, ("one", "other"), rows)
        with open(path, newline="", encoding="utf-8") as handle:
            assert list(csv.reader(handle)) == [["one", "other"], *map(list, rows)]


def test_csv_has_six_digits_and_quotes_commas(tmp_path):
    files.write_csv(tmp_path / "t.csv", ("n", "value"), [(1, 2.0), ("a,b", 1 / 3)])
    assert (tmp_path / "t.csv").read_text() == 'n,value\n1,2\n"a,b",0.333333\n'
