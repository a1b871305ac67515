"""Locks, dead processes, folders that refuse."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tinylm.base.config import InputError
from tinylm.base.files import is_alive
from tinylm.host.processes import check_writable, exclusive_lock


def test_a_lock_names_who_holds_it_since_when(tmp_path):
    lock = tmp_path / "runs" / "deep" / "lock"
    with exclusive_lock(lock, "train"):
        with pytest.raises(InputError, match=rf"pid {os.getpid()}, since \d{{4}}"):
            exclusive_lock(lock, "train").__enter__()
        with exclusive_lock(tmp_path / "other", "train"):
            pass
    with exclusive_lock(lock, "train"):
        pass


def test_an_error_of_the_disk_is_not_taken_for_a_second_holder(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr("fcntl.flock", fails)
    with pytest.raises(OSError, match="no locks"):
        exclusive_lock(tmp_path / "lock", "train").__enter__()


def test_a_killed_process_that_nobody_reaped_is_dead():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert is_alive(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(child.pid)
    child.communicate()
    assert not is_alive(1 << 80)


def test_folders_that_take_files_are_left_as_they_are(tmp_path):
    check_writable(tmp_path, tmp_path / "none" / "deep")
    assert list(tmp_path.iterdir()) == []


def test_the_first_folder_that_refuses_is_named(tmp_path, monkeypatch):
    touch = Path.touch

    def refuse(path):
        if path.parent == tmp_path / "closed":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        touch(path)

    monkeypatch.setattr(Path, "touch", refuse)
    (tmp_path / "closed").mkdir()
    with pytest.raises(PermissionError) as caught:
        check_writable(tmp_path, tmp_path / "closed" / "deep", tmp_path / "closed")
    assert caught.value.filename == str(tmp_path / "closed" / "deep")
