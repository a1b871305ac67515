"""Processes that work for this one: how many are of use, and that none outlives it."""

import contextlib
import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing import parent_process, resource_tracker


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # macOS does not have it
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
