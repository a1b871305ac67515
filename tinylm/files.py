"""The one writer: every file of the pipeline is written, checked and locked here.

A file appears under its final name only when it is whole: temporary name in the same folder, fsync, rename,
fsync of the folder. A reader therefore sees the old file or the new one, never a part.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any

from tinylm.config import InputError

_UMASK = os.umask(0o022)  # the only way to ask for it is to set it
os.umask(_UMASK)


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is synced and renamed, on failure removed.

    For writers that want a file name (safetensors, matplotlib, pyarrow). Raises OSError as the system does.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.stem}.{os.getpid()}.tmp{target.suffix}")
    try:
        yield temporary
        with open(temporary, "rb") as handle:
            os.fsync(handle.fileno())
            os.fchmod(handle.fileno(), 0o666 & ~_UMASK)  # some writers make files that only their owner may read
        os.replace(temporary, target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open `path` for writing ("w" UTF-8 text or "wb"); the file appears under its name only when complete."""
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    with atomic_path(path) as temporary, open(temporary, mode, **text) as handle:  # type: ignore[call-overload]
        yield handle


@contextlib.contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`; on success it takes the place of what stands there, on failure it goes.

    A folder cannot be renamed over another: for a moment, in which nothing but two renames happens, `path` is missing.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = (target.with_name(f".{target.name}.{os.getpid()}.tmp{n}") for n in ("", "-old"))
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        if not target.exists():
            os.rename(temporary, target)
            return
        os.rename(target, old)
        try:
            os.rename(temporary, target)
        except OSError:
            os.rename(old, target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def reserve(handle: IO[bytes], size: int) -> None:
    """Reserve `size` bytes for an open file, so that a full disk is an OSError here and not a SIGBUS later."""
    if size:
        try:
            os.posix_fallocate(handle.fileno(), 0, size)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                disk = os.fstatvfs(handle.fileno())
                need = f"disk full: {size:,} bytes needed, {disk.f_bavail * disk.f_frsize:,} free"
                raise OSError(errno.ENOSPC, need, handle.name) from None
            if error.errno != errno.EOPNOTSUPP:
                raise


def _clean(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null, numpy scalars plain numbers."""
    if isinstance(value, dict):
        return {str(key): _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, (int, float)):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def discard(*paths: str | Path) -> None:
    """Remove files that an earlier run made and this one may not make again; a missing one is no error."""
    for path in paths:
        Path(path).unlink(missing_ok=True)


def keep_only(folder: str | Path, stems: Collection[str]) -> None:
    """Remove what a folder of several stages' outputs holds beside those named, suffixes left out.

    A setting that is no longer asked for leaves its outputs (DVC's cache keeps them too), and DVC would count them
    among what the folder's reader depends on: a clone that pulls the others would run the reader again.
    """
    for path in Path(folder).glob("*"):
        if path.stem in stems:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def write_json(path: str | Path, value: Any) -> None:
    """Write JSON: indented, keys in the given order, NaN and infinities as null, newline at the end."""
    with atomic_write(path) as handle:
        json.dump(_clean(value), handle, indent=2, ensure_ascii=False, allow_nan=False)
        handle.write("\n")


def read_json(path: str | Path, made_by: str = "") -> Any:
    """Read a JSON file; InputError names the file, and the stage that makes it where it is missing."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = f": run dvc repro {made_by}" if made_by else ""
        raise InputError(f"{path} is missing{hint}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); remove it and run dvc repro") from None


def require(path: str | Path, made_by: str) -> Path:
    """Return the path if it exists; else InputError naming the stage that makes it."""
    if not Path(path).exists():
        raise InputError(f"{path} is missing: run dvc repro {made_by}")
    return Path(path)


def sha256(path: str | Path) -> str:
    """Hex SHA-256 of a file, read in pieces."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def check_sha256(path: str | Path, expected: str, made_by: str) -> None:
    """InputError if a file of ours is missing or its bytes are not those that were written (a damaged cache)."""
    require(path, made_by)
    if sha256(path) != expected:
        raise InputError(
            f"{path}: its SHA-256 is not the one it was written with; rm {path} and run dvc repro -f -s {made_by}"
        )


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
