"""Checks before a command starts: held locks and unwritable folders."""

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tinylm.base.config import InputError


@contextlib.contextmanager
def locked(path: str | Path) -> Iterator[IO[str] | None]:
    """Hold a lock on `path` while the block runs; the kernel frees it when the process dies.

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


def check_writable(*folders: str | Path) -> None:
    """Raises OSError that names the first folder in which no file can be made."""
    for folder in map(Path, folders):
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        try:
            tempfile.TemporaryFile(dir=existing).close()
        except OSError as error:
            reason = f"no file can be made here ({error.strerror})"
            raise OSError(error.errno, reason, str(folder)) from None
