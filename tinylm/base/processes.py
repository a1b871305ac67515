"""Processes: worker processes that end with their parent, locks on files, peak memory."""

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing import parent_process, resource_tracker
from pathlib import Path
from typing import IO

import psutil

from tinylm.base.config import InputError

# An update of the default run has hundreds of parallel sections, each 1 ms of work for one core. With eight cores, a
# section takes as long as waking the threads, about 0.1 ms.
USEFUL_CORES = 8


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # macOS does not have it
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def useful_cores() -> int:
    """Physical cores that this process may use, at most USEFUL_CORES."""
    return min(cores(), psutil.cpu_count(logical=False) or 1, USEFUL_CORES)


@contextlib.contextmanager
def ctrl_c_later() -> Iterator[None]:
    """Let Ctrl-C wait until the end of the block; processes started in it never receive it."""
    resource_tracker.ensure_running()  # starting it would let Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent(number: int) -> None:
    """Let Linux send this process the signal `number` when its parent ends; others cannot."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(1, number)  # PR_SET_PDEATHSIG


def begin_worker() -> None:
    """In a new process: leave Ctrl-C to the parent, and end when the parent has ended.

    A thread waits for the end of the pipe that the parent holds open. The kernel's own signal
    (PR_SET_PDEATHSIG) does not serve here: a fork server is the parent of what it starts.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def locked(path: str | Path) -> Iterator[IO[str] | None]:
    """Hold a lock on `path` while the block runs.

    Yields the open file, which is made if it is missing; None if another process holds the lock.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield handle


@contextlib.contextmanager
def exclusive_lock(path: str | Path, what: str) -> Iterator[None]:
    """Hold a lock on `path`, whose text is the holder, while the block runs.

    Raises InputError with the holder's process id and start time if another process holds it.
    """
    with locked(path) as handle:
        if handle is None:
            holder = Path(path).read_text(encoding="utf-8").strip() or "another process"
            raise InputError(f"{what} is already running here ({holder}); wait for it or stop it")
        handle.truncate(0)
        handle.write(f"pid {os.getpid()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}")
        handle.flush()
        yield


def own_peak_mib() -> float:
    """The peak resident memory of this process in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / 1024


def keep_freed_memory() -> None:
    """Let the C library keep freed memory for the next tensors instead of returning it.

    Only glibc can. Every training step frees and takes the same large buffers, and the system clears
    each page that it hands out. A step of 2,048 tokens has 24,500 page faults, with this 0 to 3.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD of malloc.h
        mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD
        mallopt(-8, 1)  # M_ARENA_MAX: a second arena of 64 MiB is freed whenever it is empty
