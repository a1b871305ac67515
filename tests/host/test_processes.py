"""Locks that name their holder, the memory of a process, and what replaces the parts that only Linux has."""

import ctypes
import os
import signal

import pytest

from tinylm.base.config import InputError
from tinylm.host import processes
from tinylm.host.processes import exclusive_lock


def test_a_lock_names_who_holds_it_since_when(tmp_path):
    lock = tmp_path / "runs" / "deep" / "lock"
    with exclusive_lock(lock, "train"):
        with pytest.raises(InputError, match=rf"pid {os.getpid()}, since \d{{4}}"):
            exclusive_lock(lock, "train").__enter__()
        with exclusive_lock(tmp_path / "other", "train"):
            pass
    with exclusive_lock(lock, "train"):
        pass


def test_each_part_that_only_linux_has_can_be_missing(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())  # without prctl and mallopt
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert processes.cores() >= processes.useful_cores() >= 1
    processes.end_with_parent(signal.SIGCONT)
    processes.keep_freed_memory()
