"""Locks, and folders that refuse."""

import os

import pytest

from tinylm.base.config import InputError
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


def test_folders_that_take_files_are_left_as_they_are(tmp_path):
    check_writable(tmp_path, tmp_path / "none" / "deep")
    assert list(tmp_path.iterdir()) == []


def test_the_first_folder_that_refuses_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="no file can be made") as caught:
        check_writable(tmp_path, tmp_path / "file" / "deep")
    assert caught.value.filename == str(tmp_path / "file" / "deep")
