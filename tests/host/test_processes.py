"""Locks that name their holder, the memory of a process, and what replaces the parts that only Linux has."""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tinylm.base.config import InputError
from tinylm.host import processes
from tinylm.host.processes import exclusive_lock, own_peak_mib

ROOT = Path(__file__).parents[2]
CHILD = "from tinylm.host.processes import own_peak_mib; print(own_peak_mib())"


def test_a_lock_names_who_holds_it_since_when(tmp_path):
    lock = tmp_path / "runs" / "deep" / "lock"
    with exclusive_lock(lock, "train"):
        with pytest.raises(InputError, match=rf"pid {os.getpid()}, since \d{{4}}"):
            exclusive_lock(lock, "train").__enter__()
        with exclusive_lock(tmp_path / "other", "train"):
            pass
    with exclusive_lock(lock, "train"):
        pass


def test_the_size_of_a_process_is_its_own():
    """getrusage's begins with that of the process which started this one."""
    weight = b"x" * 300_000_000
    child = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert 5 < float(child.stdout) < 200
    del weight


def test_each_part_that_only_linux_has_can_be_missing(monkeypatch):
    def no_proc(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(processes, "open", no_proc, raising=False)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())  # without prctl and mallopt
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert own_peak_mib() > 1
    assert processes.cores() >= 1
    processes.end_with_parent(signal.SIGCONT)
    processes.keep_freed_memory()
