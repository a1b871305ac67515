"""What other processes hold and leave: locks of the living, temporary files of the dead, folders that refuse."""

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from tinylm.config import InputError


def is_alive(pid: int) -> bool:
    """Whether a process may still work: not one that was killed and whose parent has not yet taken note of it."""
    import psutil  # only where something was left behind

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except (ValueError, OverflowError):  # no process can have this number
        return False
    except psutil.Error:
        return True  # another user's


def sweep(folder: str | Path, below: bool = False) -> None:
    """Remove the temporary files in `folder` (and below it) of processes that were killed before they could.

    Folders too (`files.atomic_folder`): one that was not finished goes, one that was to be replaced takes its place
    again where it was already out of it.
    """
    for path in sorted(Path(folder).glob("**/.*.tmp*" if below else ".*.tmp*")):
        # the last number: a name of the pipeline may hold ".tmp" itself
        named = re.match(r"\.(?P<name>.+)\.(?P<pid>\d+)\.tmp(?P<rest>.*)", path.name)
        if named is None or is_alive(int(named["pid"])):
            continue
        if path.is_file():
            path.unlink(missing_ok=True)
        elif path.is_dir() and named["rest"] in ("", "-old"):
            if named["rest"] and not os.path.lexists(path.with_name(named["name"])):
                path.rename(path.with_name(named["name"]))
            else:
                shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def exclusive_lock(path: str | Path, what: str) -> Iterator[None]:
    """Hold a lock on `path` while the block runs; the kernel frees it when the process dies.

    Raises InputError with the holder's process id and start time where another process holds it.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            holder = handle.read().strip() or "another process"
            raise InputError(f"{what} is already running here ({holder}); wait for it or end it") from None
        handle.truncate(0)
        handle.write(f"pid {os.getpid()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}")
        handle.flush()
        yield


def check_writable(*folders: str | Path) -> None:
    """OSError naming the first of the folders in which no file can be made: found before the work, not behind it."""
    for folder in map(Path, folders):
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        probe = there / f".probe.{os.getpid()}.tmp"
        try:
            probe.touch()
        except OSError as error:
            raise OSError(error.errno, f"no file can be made here ({error.strerror})", str(folder)) from None
        probe.unlink()
