"""Processes that work for this one: how many are of use, and that none outlives it."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing import parent_process, resource_tracker

from tinylm.host.command import open_streams


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def ctrl_c_later() -> Iterator[None]:
    """Let Ctrl-C wait until the end of the block; processes started in it never hear it, not even as they import."""
    resource_tracker.ensure_running()  # when it is started, it lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_worker() -> None:
    """In a new process: leave Ctrl-C to the parent, outlive the output's reader, and end when the parent is gone.

    A thread waits for the end of the pipe that the parent holds open. The kernel's own signal (PR_SET_PDEATHSIG) would
    not do: the parent of a process from a fork server is that server, which lives as long as its last child.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    open_streams()
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
