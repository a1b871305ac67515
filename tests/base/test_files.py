import errno
import hashlib
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinylm.base import files
from tinylm.base.config import InputError
from tinylm.base.files import (
    atomic_folder,
    atomic_path,
    atomic_write,
    check_sha256,
    keep_only,
    read_json,
    require,
    reserve,
    sha256,
    write_json,
)
from tinylm.host.processes import exclusive_lock

PIECES = ["first\n", "second é\n", "third\n"]


class Fault:
    """Makes the n-th system call of the writer fail; counts the calls until then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails_at: int) -> None:
        self.calls, self.fails_at = 0, fails_at
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
    whole = "".join(PIECES)
    for n in range(1, 20):
        with pytest.MonkeyPatch.context() as monkeypatch:
            fault = Fault(monkeypatch, fails_at=n)
            try:
                write_pieces(path)
                failed = False
            except OSError:
                failed = True
        content = path.read_text("utf-8") if path.exists() else None
        if not failed:
            break
        renamed = n > len(PIECES) + 2  # after the rename only the folder's fsync is left
        assert content == (whole if renamed else old)
        assert [p for p in path.parent.iterdir() if p != path] == []
    assert fault.calls == len(PIECES) + 3  # writes, fsync of the file, rename, fsync of the folder
    assert content == whole


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_interrupted_writer_leaves_nothing(tmp_path, error):
    def write_half():
        with atomic_write(tmp_path / "a.bin", "wb") as handle:
            handle.write(b"half")
            raise error

    with pytest.raises(error):
        write_half()
    assert list(tmp_path.iterdir()) == []


def test_a_library_writes_to_a_temporary_name_of_the_same_kind_and_folder(tmp_path):
    with atomic_path(tmp_path / "picture.png") as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".png"
        temporary.write_bytes(b"x")
        assert not (tmp_path / "picture.png").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["picture.png"]


def test_text_is_utf8_with_plain_line_ends(tmp_path):
    with atomic_write(tmp_path / "a.txt") as handle:
        handle.write("é\n")
    assert (tmp_path / "a.txt").read_bytes() == b"\xc3\xa9\n"


def test_a_folder_or_file_in_the_way_is_an_error_that_leaves_nothing(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        write_json(tmp_path / "taken", 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        write_json(tmp_path / "file" / "a.json", 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "taken"]


def test_discard_removes_what_is_there(tmp_path):
    (tmp_path / "old").touch()
    files.discard(tmp_path / "none", tmp_path / "old")
    assert list(tmp_path.iterdir()) == []


def test_json_keeps_the_order_and_has_no_nan(tmp_path):
    path = tmp_path / "a.json"
    value = {
        "z": math.nan,
        "a": [math.inf, np.float32(0.5), np.int64(3)],
        "m": {1: (-math.inf, True, None, "é")},
    }
    write_json(path, value)
    assert path.read_text("utf-8").endswith("}\n")
    assert "é" in path.read_text("utf-8")

    def refuse(constant):
        raise AssertionError(constant)

    read = json.loads(path.read_text("utf-8"), parse_constant=refuse)
    assert read == {"z": None, "a": [None, 0.5, 3], "m": {"1": [None, True, None, "é"]}}
    assert list(read) == ["z", "a", "m"]
    assert read_json(path) == read


def test_a_value_that_json_cannot_hold_leaves_the_old_file(tmp_path):
    write_json(tmp_path / "a.json", 1)
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"a": object()})
    assert read_json(tmp_path / "a.json") == 1
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("content", [b"{", b"", b'{"a": 1} x', b"\xff", b"[" * 100_000])
def test_broken_json_is_named(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json: not JSON .*; remove it and run dvc repro"):
        read_json(tmp_path / "a.json")


def test_a_missing_file_is_named_with_the_stage_that_makes_it(tmp_path):
    path = tmp_path / "model.safetensors"
    message = f"{path} is missing: run dvc repro train"
    for reader in (
        lambda: require(path, "train"),
        lambda: read_json(path, "train"),
        lambda: check_sha256(path, "", "train"),
    ):
        with pytest.raises(InputError) as caught:
            reader()
        assert str(caught.value) == message
    path.touch()
    assert require(path, "train") == path


def test_a_changed_byte_is_found_and_the_remedy_named(tmp_path):
    path = tmp_path / "train.ids"
    path.write_bytes(b"abc" * 100_000)
    digest = sha256(path)
    check_sha256(path, digest, "vocab")
    path.write_bytes(b"abc" * 99_999 + b"abd")
    with pytest.raises(InputError, match=rf"rm {path} and run dvc repro -f -s vocab$"):
        check_sha256(path, digest, "vocab")


def test_sha256_of_a_known_text(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert (
        sha256(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


def test_reserve_takes_the_space(tmp_path):
    with open(tmp_path / "a", "wb") as handle:
        reserve(handle, 0)
        reserve(handle, 12_345)
    assert (tmp_path / "a").stat().st_size == 12_345


def test_reserve_on_a_full_disk_names_file_need_and_free_space(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"disk full: 1,234 bytes needed, [\d,]+ free.*/a'"):
        files.write_bytes(tmp_path / "a", bytes(1234))
    assert list(tmp_path.iterdir()) == []


def test_reserve_does_without_where_the_file_system_cannot(tmp_path, monkeypatch):
    def fails_with(number):
        def call(*_):
            raise OSError(number, os.strerror(number))

        return call

    with open(tmp_path / "a", "wb") as handle:
        monkeypatch.setattr(os, "posix_fallocate", fails_with(errno.EOPNOTSUPP))
        reserve(handle, 10)
        monkeypatch.setattr(os, "posix_fallocate", fails_with(errno.EIO))
        with pytest.raises(OSError, match="error"):
            reserve(handle, 10)


HOLDER = """
import sys
from tinylm.host.processes import exclusive_lock
with exclusive_lock(sys.argv[1], "train"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_and_told_the_first_ones_id(tmp_path):
    lock = tmp_path / "runs" / "lock"
    root = Path(files.__file__).parents[2]
    command = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(
            InputError, match=rf"^train is already running here \(pid {holder.pid}, since 2"
        ):
            exclusive_lock(lock, "train").__enter__()
        holder.kill()  # no clean-up by the holder: the kernel frees the lock
        holder.wait()
        with exclusive_lock(lock, "train"):
            assert f"pid {os.getpid()}," in lock.read_text()


def test_a_lock_is_free_again_after_an_error(tmp_path):
    with pytest.raises(ValueError, match="inside"), exclusive_lock(tmp_path / "lock", "train"):
        raise ValueError("inside")
    with exclusive_lock(tmp_path / "lock", "train"):
        pass


def test_a_folder_appears_when_it_is_whole(tmp_path):
    with atomic_folder(tmp_path / "deep/made") as new:
        (new / "a").write_text("1")
        assert not (tmp_path / "deep/made").exists()
    assert [path.name for path in (tmp_path / "deep").rglob("*")] == ["made", "a"]


def test_a_folder_takes_the_place_of_the_old_one(tmp_path):
    for name in ("old", "new"):
        with atomic_folder(tmp_path / "made") as folder:
            (folder / name).write_text(name)
    assert [path.name for path in tmp_path.rglob("*")] == ["made", "new"]


def test_a_folder_keeps_who_may_read_the_one_that_it_replaces(tmp_path):
    (tmp_path / "a").mkdir(mode=0o700)
    with atomic_folder(tmp_path / "a") as new:
        (new / "x").touch()
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a/x").exists()


def test_a_folder_that_may_not_be_written_is_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    monkeypatch.setattr(
        os, "access", lambda path, mode: path != tmp_path / "a"
    )  # root may write everywhere
    with (
        pytest.raises(PermissionError, match=str(tmp_path / "a")),
        atomic_folder(tmp_path / "a") as new,
    ):
        (new / "x").touch()
    assert not list((tmp_path / "a").iterdir())


def test_a_folder_that_fails_leaves_the_old_one(tmp_path):
    with atomic_folder(tmp_path / "made") as folder:
        (folder / "old").write_text("old")

    def write_half():
        with atomic_folder(tmp_path / "made") as folder:
            (folder / "new").write_text("new")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        write_half()
    assert [path.name for path in tmp_path.rglob("*")] == ["made", "old"]


def test_a_folder_that_cannot_be_renamed_leaves_the_old_one(tmp_path, monkeypatch):
    with atomic_folder(tmp_path / "made") as folder:
        (folder / "old").write_text("old")
    rename = os.rename

    def refuse(source, target):
        if not str(source).endswith("-old") and str(target).endswith("made"):
            raise PermissionError(errno.EPERM, "no", str(target))
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(PermissionError), atomic_folder(tmp_path / "made") as folder:
        (folder / "new").write_text("new")
    assert [path.name for path in tmp_path.rglob("*")] == ["made", "old"]


@pytest.mark.parametrize("call", ["mkdir", "rename"])
def test_a_folder_that_may_not_be_written_is_named_as_it_will_be_called(
    tmp_path, monkeypatch, call
):
    def refuse(first, *_):
        raise PermissionError(errno.EACCES, "no permission", first)

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(PermissionError) as caught, atomic_folder(tmp_path / "made"):
        pass
    assert caught.value.filename == str(tmp_path / "made")


def test_a_file_whose_folder_may_not_be_written_is_named_as_it_will_be_called(
    tmp_path, monkeypatch
):
    def refuse(source, _):
        raise PermissionError(
            errno.EACCES, "no permission", source
        )  # a path, not a text, as `os` gives it

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError) as caught:
        files.write_bytes(tmp_path / "a.json", b"x")
    assert caught.value.filename == str(tmp_path / "a.json")


def test_outputs_of_settings_that_are_no_longer_asked_for_go(tmp_path):
    for name in ("train.json", "2.json", "2/model.safetensors", "3.json", "3/model.safetensors"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    keep_only(tmp_path, {"train", "2"})
    found = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*"))
    assert found == ["2.json", "2/model.safetensors", "train.json"]
    assert not (tmp_path / "3").exists()


def test_a_file_may_be_read_by_whom_the_umask_lets(tmp_path):
    """Some libraries make files that only their owner may read: each ends with the rights of a plain `open`."""
    (tmp_path / "plain").touch()
    with atomic_path(tmp_path / "made") as temporary:
        temporary.touch(mode=0o600)
    assert (tmp_path / "made").stat().st_mode == (tmp_path / "plain").stat().st_mode


APART = """
import os, sys
sys.path.insert(0, sys.argv[1])
os.umask(0o027)
from tinylm.base import files
with files.atomic_write("a") as handle:
    handle.write("\\xe9")
files.write_json("b", "\\xe9")
assert files.read_json("b") == "\\xe9"
print(os.umask(0))
"""


def test_neither_umask_nor_locale_changes_the_bytes(tmp_path):
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", APART, str(Path(files.__file__).parents[2])]
    said = subprocess.run(
        command, cwd=tmp_path, env=plain, check=True, capture_output=True, text=True
    ).stdout
    assert (tmp_path / "a").read_bytes() == b"\xc3\xa9"
    assert ((tmp_path / "a").stat().st_mode & 0o777, int(said)) == (0o640, 0o027)


def test_leftovers_of_the_dead_go_before_the_first_file_is_written(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    (tmp_path / f".a.{child.pid}.tmp.json").touch()
    with atomic_path(tmp_path / "deep" / "a.json") as temporary:
        temporary.touch()
    assert (tmp_path / f".a.{child.pid}.tmp.json").exists()
    with atomic_path(str(tmp_path / "a.json")) as temporary:
        assert temporary.name == f".a.{os.getpid()}.tmp.json"
        temporary.touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "deep"]


def fails(number: int, name: str | None = None):
    def call(*_):
        raise OSError(number, os.strerror(number), name)

    return call


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named_with_the_file_and_the_bytes_that_are_free(
    tmp_path, monkeypatch, number
):
    free = type("Disk", (), {"f_bavail": 25, "f_frsize": 4000})
    asked = []
    monkeypatch.setattr(os, "statvfs", lambda path: asked.append(path) or free)
    monkeypatch.setattr(os, "fsync", fails(number))
    with pytest.raises(OSError, match="full") as caught:
        files.write_json(tmp_path / "a.json", 1)
    assert (caught.value.errno, caught.value.strerror) == (number, "disk full: 100,000 free")
    assert (caught.value.filename, asked) == (str(tmp_path / "a.json"), [tmp_path])
    monkeypatch.setattr(os, "posix_fallocate", fails(number))
    with pytest.raises(OSError, match="full") as caught:
        files.write_bytes(tmp_path / "a.json", bytes(1234))
    assert caught.value.strerror == "disk full: 1,234 bytes needed, 100,000 free"  # said once
    assert caught.value.filename == str(tmp_path / "a.json")
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("number", "ours"), [(errno.EIO, True), (errno.EFBIG, True), (errno.EPERM, False)]
)
def test_an_error_of_the_disk_names_the_final_file(tmp_path, monkeypatch, number, ours):
    """The temporary name means nothing to a reader; an error that names another file keeps it."""
    target = tmp_path / "a.json"
    monkeypatch.setattr(os, "fsync", fails(number))
    with pytest.raises(OSError, match=re.escape(os.strerror(number))) as caught:
        files.write_bytes(target, b"x")
    assert (caught.value.errno, caught.value.filename) == (number, str(target) if ours else None)
    monkeypatch.setattr(os, "fsync", fails(number, str(tmp_path / f".a.{os.getpid()}.tmp.json")))
    with pytest.raises(OSError, match=re.escape(os.strerror(number))) as caught:
        files.write_bytes(target, b"x")
    assert (caught.value.errno, caught.value.filename) == (number, str(target))
    monkeypatch.setattr(os, "fsync", fails(number, "/another"))
    with pytest.raises(OSError, match="another") as caught:
        files.write_bytes(target, b"x")
    assert caught.value.filename == "/another"


def test_numpys_error_and_one_within_an_unfinished_folder_name_what_was_to_be_there(tmp_path):
    with (
        pytest.raises(OSError, match="9 requested and 4 written") as caught,
        files.atomic_path(tmp_path / "a.gguf"),
    ):
        raise OSError("9 requested and 4 written")
    assert caught.value.filename == str(tmp_path / "a.gguf")
    with (
        pytest.raises(OSError, match="large") as caught,
        files.atomic_folder(tmp_path / "export") as folder,
    ):
        raise OSError(errno.EFBIG, "too large", str(folder / "sub" / "b"))
    assert caught.value.filename == str(tmp_path / "export" / "sub" / "b")


def test_space_is_reserved_from_the_first_byte_and_only_where_the_size_is_known(
    tmp_path, monkeypatch
):
    asked = []
    monkeypatch.setattr(os, "posix_fallocate", lambda _, start, size: asked.append((start, size)))
    files.write_bytes(tmp_path / "a", b"")
    with atomic_write(tmp_path / "b") as handle:
        handle.write("text")
    assert asked == []
    files.write_bytes(tmp_path / "a", b"x")
    files.copy_file(str(tmp_path / "b"), tmp_path / "c")
    assert asked == [(0, 1), (0, 4)]
    monkeypatch.setattr(os, "posix_fallocate", fails(errno.EINVAL))
    files.write_bytes(tmp_path / "a", b"xy")
    assert (tmp_path / "a").read_bytes() == b"xy"


def test_a_copy_has_the_same_bytes_in_a_folder_of_its_own(tmp_path):
    (tmp_path / "a").write_bytes(bytes(range(256)) * 300)
    files.copy_file(tmp_path / "a", tmp_path / "deep" / "deeper" / "b")
    assert (tmp_path / "deep/deeper/b").read_bytes() == (tmp_path / "a").read_bytes()


def test_a_renamed_folder_is_synced(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(
        os,
        "fsync",
        lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")) or fsync(handle),
    )
    (tmp_path / "old").mkdir()
    files.rename_folder(tmp_path / "old", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    with atomic_folder(tmp_path / "made"):
        pass
    assert synced == [str(tmp_path)] * 2
    open_ = set(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "fsync", fails(errno.EIO))
    with pytest.raises(OSError, match="error"):
        files.rename_folder(tmp_path / "new", tmp_path / "newer")
    assert set(os.listdir("/proc/self/fd")) == open_


def test_a_folder_starts_empty_and_leaves_nothing_of_an_earlier_attempt(tmp_path):
    own = f".made.{os.getpid()}.tmp"
    (tmp_path / own).mkdir()
    (tmp_path / own / "left").touch()
    with atomic_folder(tmp_path / "made") as folder:
        assert (folder.name, list(folder.iterdir())) == (own, [])
        (tmp_path / "old" / "made").mkdir(parents=True)
    for place in ("old", "new/deep"):
        with atomic_folder(str(tmp_path / place / "made")) as folder:
            (folder / "a").touch()
    with atomic_folder(tmp_path / "made") as folder:
        (folder / "a").touch()
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == [
        "made", "made/a", "new", "new/deep", "new/deep/made", "new/deep/made/a", "old", "old/made", "old/made/a"
    ]  # fmt: skip


def test_a_folder_that_cannot_be_named_for_the_first_time_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "rename", fails(errno.EPERM))
    with pytest.raises(PermissionError), atomic_folder(tmp_path / "made") as folder:
        (folder / "new").write_text("new")
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_numpy_are_plain_in_json(tmp_path):
    write_json(
        tmp_path / "a.json",
        [np.bool_(True), np.float64(0.25), np.float32("nan"), 1, 2.5, (np.int8(3), [])],
    )
    assert (tmp_path / "a.json").read_text(
        "utf-8"
    ) == "[\n  true,\n  0.25,\n  null,\n  1,\n  2.5,\n  [\n    3,\n    []\n  ]\n]\n"


def test_a_sealed_object_is_checked_when_read(tmp_path):
    path, value = tmp_path / "a.json", {"b": 1, "a": [math.nan, "é"]}
    write_json(path, value, sealed=True)
    stored = json.loads(path.read_text("utf-8"))
    digest = hashlib.sha256(b'{"b": 1, "a": [null, "\\u00e9"]}').hexdigest()
    assert list(stored.items()) == [("b", 1), ("a", [None, "é"]), (files.SEAL, digest)]
    assert read_json(path) == {"b": 1, "a": [None, "é"]}
    path.write_text(json.dumps(stored), encoding="utf-8")
    assert read_json(path) == {"b": 1, "a": [None, "é"]}  # the content counts, not the layout
    path.write_text(json.dumps(stored | {"b": 2}), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_json(path, "train")
    said = f"{path}: its SHA-256 is not the one it was written with; rm {path} and run dvc repro -f -s train"
    assert str(caught.value) == said
    with pytest.raises(InputError) as caught:
        read_json(path)
    assert str(caught.value) == said.removesuffix(" -f -s train")
    write_json(path, value)
    assert files.SEAL not in path.read_text("utf-8")


def test_json_without_a_known_maker_is_named_when_it_is_missing(tmp_path):
    with pytest.raises(InputError) as caught:
        read_json(tmp_path / "a.json")
    assert str(caught.value) == f"{tmp_path / 'a.json'} is missing"
    (tmp_path / "a.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_json(tmp_path / "a.json")
    assert str(caught.value).startswith(f"{tmp_path / 'a.json'}: not JSON (Expecting property name")
    assert str(caught.value).endswith("); remove it and run dvc repro")


def test_sums_name_every_file(tmp_path):
    for name in ("b.json", "a.bin", ".hidden", "sha256.json"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    (tmp_path / "folder").mkdir()
    files.write_sums(str(tmp_path))
    sums = json.loads((tmp_path / "sha256.json").read_text("utf-8"))
    assert list(sums) == ["a.bin", "b.json", "sha256_of_the_rest"]
    assert read_json(tmp_path / files.SUMS) == {
        name: sha256(tmp_path / name) for name in ("a.bin", "b.json")
    }


def test_a_file_that_its_folders_sums_do_not_know_is_found(tmp_path):
    path = tmp_path / "a.bin"
    with pytest.raises(InputError, match=r"a\.bin is missing: run dvc repro vocab"):
        files.check_sums(path, "vocab")
    path.write_bytes(b"abc")
    files.check_sums(path, "vocab")  # no sums: nothing to compare
    (tmp_path / "b.bin").write_bytes(b"")
    files.write_sums(tmp_path)
    (tmp_path / "new").write_bytes(b"")
    for name in ("a.bin", "b.bin", "new"):
        files.check_sums(tmp_path / name, "vocab")
    (tmp_path / files.SUMS).write_text("[1]")
    with pytest.raises(InputError, match=r"sha256\.json: its SHA-256 is not the one"):
        files.check_sums(path, "vocab")
    files.write_sums(tmp_path)
    path.write_bytes(b"abd")
    with pytest.raises(InputError) as caught:
        files.check_sums(str(path), "vocab")
    assert str(caught.value).endswith(f"rm {path} and run dvc repro -f -s vocab")
    path.write_bytes(b"abc")
    files.check_sums(path, "vocab")
    sums = (tmp_path / files.SUMS).read_text("utf-8")
    (tmp_path / files.SUMS).write_text(sums.replace("b.bin", "c.bin"), encoding="utf-8")
    with pytest.raises(InputError, match=rf"{files.SUMS}: its SHA-256 is not .* -f -s vocab$"):
        files.check_sums(path, "vocab")
    (tmp_path / files.SUMS).write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match=rf"{files.SUMS}: not JSON"):
        files.check_sums(path, "vocab")


def test_a_file_is_read_for_its_sum_once_as_long_as_it_stays(tmp_path, monkeypatch):
    path, read = tmp_path / "a.bin", []
    path.write_bytes(b"abc")
    files.write_sums(tmp_path)
    plain = files.sha256
    monkeypatch.setattr(files, "sha256", lambda file: read.append(str(file)) or plain(file))
    monkeypatch.chdir(tmp_path)
    for _ in range(3):
        files.check_sums("a.bin", "vocab")
    assert read == ["a.bin"]
    other = tmp_path / "other"
    other.mkdir()
    for name in ("a.bin", files.SUMS):
        files.copy_file(tmp_path / name, other / name)
    monkeypatch.chdir(other)
    files.check_sums("a.bin", "vocab")  # the same name, and another file
    assert read == ["a.bin"] * 2


def test_what_is_kept_goes_by_the_stem(tmp_path):
    for name in ("a.json", "a.csv", "b.a"):
        (tmp_path / name).touch()
    keep_only(str(tmp_path), ["a"])
    keep_only(tmp_path / "none", ["a"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.json"]


def test_a_scratch_file_lies_in_its_folder_without_a_name_and_its_errors_name_the_folder(tmp_path):
    folder = tmp_path / "a" / "b"
    for _ in range(2):  # the folder may be there
        with files.scratch_file(folder) as handle:
            handle.write(b"words")
            assert os.fstat(handle.fileno()).st_size == 5  # nothing waits in a buffer
            assert os.fstat(handle.fileno()).st_dev == folder.stat().st_dev
            assert os.readlink(f"/proc/self/fd/{handle.fileno()}").startswith(f"{folder}/")
            assert list(folder.iterdir()) == []
    with pytest.raises(OSError, match=re.escape(str(folder))) as met, files.scratch_file(folder):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert met.value.errno == errno.ENOSPC
