"""Locks on files; the kernel frees them when the process ends that holds them."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tinylm.base.config import InputError


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
            raise InputError(f"{what} is already running here ({holder}); wait for it or end it")
        handle.truncate(0)
        handle.write(f"pid {os.getpid()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}")
        handle.flush()
        yield
