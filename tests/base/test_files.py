"""Files are whole or as before, wherever their writer fails; damaged ones are refused."""

import errno
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinylm.base import files
from tinylm.base.config import InputError
from tinylm.base.files import atomic_folder, atomic_path, atomic_write, read_json, write_json

PIECES = ["first\n", "second é\n", "third\n"]


class Fault:
    """Makes the n-th system call of the writer fail; counts the calls until then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails_at: int) -> None:
        self.calls = 0
        self.fails_at = fails_at
        for name in ("fsync", "replace"):
            monkeypatch.setattr(os, name, self.wrap(getattr(os, name)))
        monkeypatch.setattr(files, "open", self.open, raising=False)

    def wrap(self, call):
        def counted(*args, **kwargs):
            self.calls += 1
            if self.calls == self.fails_at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return call(*args, **kwargs)

        return counted

    def open(self, *args, **kwargs):
        handle = open(*args, **kwargs)  # noqa: SIM115 (the writer under test closes it)
        if "w" in (args[1] if len(args) > 1 else "r"):
            handle.write = self.wrap(handle.write)
        return handle


def write_pieces(path: Path) -> None:
    with atomic_write(path) as handle:
        for piece in PIECES:
            handle.write(piece)


@pytest.mark.parametrize("old", [None, "old content"])
def test_a_file_is_whole_or_as_before_wherever_the_writer_fails(tmp_path, old):
    path = tmp_path / "folder" / "story.txt"
    if old is not None:
        path.parent.mkdir()
        path.write_text(old)
    for n in range(1, 20):
        with pytest.MonkeyPatch.context() as monkeypatch:
            fault = Fault(monkeypatch, fails_at=n)
            failed = False
            try:
                write_pieces(path)
            except OSError:
                failed = True
        content = path.read_text("utf-8") if path.exists() else None
        if not failed:
            break
        renamed = n > len(PIECES) + 2  # after the rename only the folder's fsync is left
        assert content == ("".join(PIECES) if renamed else old)
        assert [p for p in path.parent.iterdir() if p != path] == []
    assert fault.calls == len(PIECES) + 3  # writes, fsync of the file, rename, fsync of the folder
    assert content == "".join(PIECES)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_interrupted_writer_leaves_nothing(tmp_path, error):
    with pytest.raises(error), atomic_write(tmp_path / "a.bin", "wb") as handle:  # noqa: PT012
        handle.write(b"half")
        raise error
    assert list(tmp_path.iterdir()) == []


def test_a_library_writes_to_a_temporary_name_of_the_same_kind_and_folder(tmp_path):
    with atomic_path(tmp_path / "picture.png") as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".png"
        temporary.touch()
        assert not (tmp_path / "picture.png").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["picture.png"]


def test_a_folder_or_file_in_the_way_is_an_error_that_leaves_nothing(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        write_json(tmp_path / "taken", 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        write_json(tmp_path / "file" / "a.json", 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "taken"]


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


def test_a_disk_error_names_the_file_that_was_to_be_written(tmp_path):
    with pytest.raises(OSError, match="No space") as caught, atomic_write(tmp_path / "a"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(tmp_path / "a")


def test_a_copy_has_the_same_bytes_in_a_folder_of_its_own(tmp_path):
    (tmp_path / "a").write_bytes(bytes(range(256)) * 300)
    files.copy_file(tmp_path / "a", tmp_path / "deep" / "deeper" / "b")
    assert (tmp_path / "deep/deeper/b").read_bytes() == (tmp_path / "a").read_bytes()


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


def test_a_value_that_json_cannot_hold_leaves_the_old_file(tmp_path):
    write_json(tmp_path / "a.json", 1)
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"a": object()})
    assert read_json(tmp_path / "a.json") == 1
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("content", [b"{", b"", b'{"a": 1} x', b"\xff", b"[" * 100_000, None])
def test_broken_or_missing_json_is_named(tmp_path, content):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json"):
        read_json(path, "train")


def test_a_sealed_object_is_checked_when_read(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"b": 1, "a": [math.nan, "é"]}, sealed=True)
    stored = json.loads(path.read_text("utf-8"))
    assert read_json(path) == {"b": 1, "a": [None, "é"]}
    path.write_text(json.dumps(stored), encoding="utf-8")
    assert read_json(path) == {"b": 1, "a": [None, "é"]}  # the content counts, not the layout
    path.write_text(json.dumps(stored | {"b": 2}), encoding="utf-8")
    with pytest.raises(InputError, match="run dvc repro -f -s train"):
        read_json(path, "train")


def test_a_file_other_than_its_folders_sums_say_is_refused(tmp_path):
    path = tmp_path / "a.bin"
    with pytest.raises(InputError, match=r"a\.bin is missing: run dvc repro vocab"):
        files.check_sums(path, "vocab")
    path.write_bytes(b"abc")
    files.check_sums(path, "vocab")  # no sums: nothing to compare
    files.write_sums(tmp_path)
    files.check_sums(path, "vocab")
    path.write_bytes(b"abd")
    with pytest.raises(InputError, match="dvc repro -f -s vocab"):
        files.check_sums(path, "vocab")
    path.write_bytes(b"abc")
    sums = (tmp_path / files.SUMS).read_text("utf-8")
    (tmp_path / files.SUMS).write_text(sums.replace("a.bin", "c.bin"), encoding="utf-8")
    with pytest.raises(InputError, match=files.SUMS):
        files.check_sums(path, "vocab")


def test_outputs_that_params_yaml_no_longer_names_are_removed(tmp_path):
    for name in ("a.json", "a.csv", "b.a"):
        (tmp_path / name).touch()
    (tmp_path / "c").mkdir()
    files.keep_only(tmp_path, ["a"])
    files.discard(tmp_path / "a.csv", tmp_path / "none")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from tinylm.base import files
with files.atomic_write("a") as handle:
    handle.write("\\xe9")
"""


def test_the_locale_changes_no_byte(tmp_path):
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", SCRIPT, str(Path(files.__file__).parents[2])]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "a").read_bytes() == b"\xc3\xa9"
