"""Checks before a command starts: held locks, unwritable folders, names that are too long for a socket."""

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
            free = False
        else:
            free = True
        yield handle if free else None


@contextlib.contextmanager
def exclusive_lock(path: str | Path, what: str) -> Iterator[None]:
    """Hold a lock on `path`, which says since when, while the block runs.

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
    """OSError naming the first folder in which no file can be created: found before the work, not after it."""
    for folder in map(Path, folders):
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        probe = there / f".probe.{os.getpid()}.tmp"
        try:
            probe.touch()
        except OSError as error:
            raise OSError(
                error.errno, f"no file can be made here ({error.strerror})", str(folder)
            ) from None
        probe.unlink()


LONGEST_TEMPORARY = 107 - len(
    "/pymp-12345678/listener-12345678"
)  # bytes; what a socket's name holds, and its end
SHORT_FOLDERS = ("/tmp", "/var/tmp")


def name_sockets() -> str:
    """Choose where multiprocessing keeps its sockets: in TMPDIR, or where that is too long a name, in /tmp.

    Raises InputError if there is no such folder to write to.
    """
    from multiprocessing import util

    given = tempfile.gettempdir()
    if len(os.fsencode(given)) <= LONGEST_TEMPORARY:
        return given
    short = next((folder for folder in SHORT_FOLDERS if os.access(folder, os.W_OK | os.X_OK)), None)
    if short is None:
        raise InputError(
            f"environment: TMPDIR = {given!r}: {len(os.fsencode(given))} bytes; allowed: at most {LONGEST_TEMPORARY}, "
            f"since processes talk through sockets there ({' and '.join(SHORT_FOLDERS)} cannot be written to)"
        )
    tempfile.tempdir = short
    try:
        util.get_temp_dir()  # made once, and kept for this process
    finally:
        tempfile.tempdir = given
    return short
