"""Processes that work for this one: how many are of use, and that none outlives it."""

import os
import signal
import threading
from multiprocessing import parent_process


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def follow_parent() -> None:
    """In a process that multiprocessing started: leave Ctrl-C to the parent, and end when it is gone, however it ended.

    A thread waits for the end of the pipe that the parent holds open. The kernel's own signal (PR_SET_PDEATHSIG) would
    not do: the parent of a process from a fork server is that server, which lives as long as its last child.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
