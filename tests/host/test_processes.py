"""Locks of the living, leftovers of the dead, folders that refuse."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tinylm.base.config import InputError
from tinylm.base.files import is_alive, sweep
from tinylm.host import processes
from tinylm.host.processes import check_writable, exclusive_lock


@pytest.fixture(scope="module")
def dead() -> int:
    """The id of a process that has ended and was reaped."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    return child.pid


def names(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def test_leftovers_of_dead_processes_go_and_those_of_the_living_stay(tmp_path, dead):
    ours = [f".a.b.{os.getpid()}.tmp.json", f".a.{os.getppid()}.tmp"]
    others = [
        "a.json",
        f"a.{dead}.tmp.json",
        ".hidden",
        ".no-number.tmp",
        f".a.{dead}x.tmp",
        ".tmp",
    ]
    for name in (*ours, *others, f".a.b.{dead}.tmp.json", f".a.{dead}.tmp", f".tmp.{dead}.tmp.pdf"):
        (tmp_path / name).touch()
    sweep(str(tmp_path))
    assert names(tmp_path) == sorted([*ours, *others[:4], ".tmp", f".a.{dead}x.tmp"])


def test_folders_of_dead_processes_go_and_what_they_had_put_aside_comes_back(tmp_path, dead):
    """As `atomic_folder` leaves them: killed while it wrote, between its two renames, behind them."""
    ours, no_name_of_ours = f".a.{os.getpid()}.tmp-old", f".a.{dead}.tmp-kept"
    for name in (
        f".written.{dead}.tmp",
        f".out.{dead}.tmp",
        f".out.{dead}.tmp-old",
        f".in.{dead}.tmp-old",
        "in",
        ours,
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "of").write_text(name, "utf-8")
    (tmp_path / no_name_of_ours).mkdir()
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [ours, no_name_of_ours, "in", "out"]
    )
    assert (tmp_path / "out" / "of").read_text("utf-8") == f".out.{dead}.tmp-old"
    assert (tmp_path / "in" / "of").read_text("utf-8") == "in"


@pytest.mark.parametrize("below", [False, True])
def test_leftovers_below_a_folder_go_where_that_is_asked_for(tmp_path, dead, below):
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    for folder in (deep, tmp_path):
        (folder / f".x.{dead}.tmp.csv").touch()
    sweep(tmp_path, below)
    assert names(tmp_path) == ([] if below else [f"a/b/.x.{dead}.tmp.csv"])


def test_below_is_not_the_default(tmp_path, dead):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / f".x.{dead}.tmp").touch()
    sweep(tmp_path)
    assert len(names(tmp_path)) == 1


def test_a_process_that_may_not_be_asked_is_alive(tmp_path, monkeypatch):
    def refuse(_):
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "status", refuse)
    left = f".x.{os.getpid()}.tmp"
    (tmp_path / left).touch()
    sweep(tmp_path)
    assert names(tmp_path) == [left]


def test_a_killed_process_that_nobody_reaped_is_dead(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    left = tmp_path / f".model.json.{other.pid}.tmp"
    left.touch()
    sweep(tmp_path)
    assert left.exists()  # its writer is at work
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(other.pid)
    sweep(tmp_path)
    assert not left.exists()
    other.communicate()


@pytest.mark.parametrize("number", [-1, 1 << 80])
def test_no_process_has_such_a_number(number):
    assert not is_alive(number)


def test_a_leftover_that_another_sweeps_first_is_no_error(tmp_path, dead, monkeypatch):
    leftover = tmp_path / f".x.{dead}.tmp"
    leftover.touch()
    is_file = Path.is_file

    def gone(path):
        found = is_file(path)
        path.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Path, "is_file", gone)
    sweep(tmp_path)


def test_a_lock_says_who_holds_it_since_when(tmp_path):
    lock = tmp_path / "runs" / "deep" / "lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("pid 123456789, since a longer time than anybody remembers")
    with exclusive_lock(lock, "train"):
        note = lock.read_text("utf-8")
        assert re.fullmatch(rf"pid {os.getpid()}, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d", note)
        with pytest.raises(InputError) as caught, exclusive_lock(str(lock), "vocab"):
            pass
        assert str(caught.value) == f"vocab is already running here ({note}); wait for it or end it"
        assert lock.read_text("utf-8") == note
        lock.write_text(" \n")
        with pytest.raises(
            InputError, match=r"^train is already running here \(another process\); wait"
        ):
            exclusive_lock(lock, "train").__enter__()


def test_a_lock_makes_its_folder(tmp_path):
    with (
        exclusive_lock(tmp_path / "a" / "b" / "lock", "train"),
        exclusive_lock(tmp_path / "a" / "other", "train"),
    ):
        assert names(tmp_path) == ["a/b/lock", "a/other"]


def test_an_error_of_the_disk_is_not_taken_for_a_second_holder(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr("fcntl.flock", fails)
    with pytest.raises(OSError, match="no locks"):
        exclusive_lock(tmp_path / "lock", "train").__enter__()


def test_folders_that_take_files_are_left_as_they_are(tmp_path):
    check_writable(tmp_path, str(tmp_path / "none" / "deep"))
    assert list(tmp_path.iterdir()) == []


def test_the_first_folder_that_refuses_is_named(tmp_path, monkeypatch):
    touch, tried = Path.touch, []

    def refuse(path):
        tried.append(path)
        if path.parent == tmp_path / "closed":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        touch(path)

    monkeypatch.setattr(Path, "touch", refuse)
    (tmp_path / "closed").mkdir()
    with pytest.raises(OSError, match="no file can be made here") as caught:
        check_writable(tmp_path, tmp_path / "closed" / "deep" / "deeper", tmp_path / "closed")
    assert caught.value.errno == errno.EACCES
    assert caught.value.filename == str(tmp_path / "closed" / "deep" / "deeper")
    assert caught.value.strerror == "no file can be made here (Permission denied)"
    assert [path.name for path in tried] == [
        f".probe.{os.getpid()}.tmp"
    ] * 2  # a name that `sweep` knows
    assert names(tmp_path) == []


def test_sockets_go_elsewhere_where_their_names_would_be_too_long(tmp_path):
    """In a process of its own, which then really makes one; a bench's forkserver names its socket in the same way."""
    long = tmp_path / ("x" * (processes.LONGEST_TEMPORARY + 1))
    long.mkdir()
    code = (
        "import tempfile; from multiprocessing.connection import Listener\n"
        "from tinylm.host.processes import name_sockets\n"
        "where = name_sockets(); listener = Listener(family='AF_UNIX')\n"
        "print(where, listener.address.startswith(where))\n"
        "print(tempfile.gettempdir()); listener.close()"
    )
    environment = {**os.environ, "TMPDIR": str(long), "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["/tmp True", str(long)]


def test_a_temporary_folder_of_any_allowed_length_is_used(monkeypatch):
    monkeypatch.setattr(
        processes.tempfile, "gettempdir", lambda: "/" + "x" * (processes.LONGEST_TEMPORARY - 1)
    )
    assert processes.name_sockets() == processes.tempfile.gettempdir()
    monkeypatch.setattr(
        processes.tempfile, "gettempdir", lambda: "/" + "x" * processes.LONGEST_TEMPORARY
    )
    monkeypatch.setattr(processes, "SHORT_FOLDERS", ("/nowhere", "/none"))
    with pytest.raises(
        InputError,
        match=r"TMPDIR = '/x+': 76 bytes; allowed: at most 75, .*/nowhere and /none cannot",
    ):
        processes.name_sockets()
