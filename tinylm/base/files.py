"""The one writer: every file of the pipeline is written and checked here.

A file appears under its final name only when it is complete: temporary name in the same folder,
fsync, rename, fsync of the folder. A reader sees the old file or the new one, never a part of it.
"""

import contextlib
import csv
import errno
import functools
import hashlib
import json
import math
import os
import re
import shutil
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tinylm.base.config import InputError

SUMS = "sha256.json"
SEAL = "sha256_of_the_rest"
_UMASK = os.umask(0o022)  # the only way to read it is to set it
os.umask(_UMASK)
_HOST = re.sub(r"\W", "", socket.gethostname())
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<host>\w*)-(?P<pid>\d+)\.tmp(?P<rest>.*)")


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _error_of(target: Path, error: OSError, needed: int = 0) -> OSError:
    """The error with the final name of its file; if the disk is full, with the bytes needed and free."""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT) and not reason.startswith("disk full"):
        free = shutil.disk_usage(target if target.is_dir() else target.parent).free
        wanted = f"{needed:,} bytes needed, " if needed else ""
        reason = f"disk full: {wanted}{free:,} free"
    return OSError(error.errno or errno.EIO, reason, str(target))


def is_alive(pid: int) -> bool:
    """Whether a process of this machine is still working; one that was killed is not."""
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        return False
    except psutil.Error:
        return True  # it belongs to another user


def remove_stale_temp_files(folder: str | Path, below: bool = False) -> None:
    """Remove the temporary files and folders of processes of this machine that were killed.

    A folder that was moved aside to be replaced is restored instead. `below`: in subfolders too.
    Files of other machines stay: the folder may be shared, and their processes cannot be seen here.
    """
    for path in sorted(Path(folder).glob("**/.*.tmp*" if below else ".*.tmp*")):
        match = _TEMPORARY.match(path.name)
        if match is None or match["host"] != _HOST or is_alive(int(match["pid"])):
            continue
        original = path.with_name(match["name"])
        if path.is_file():
            path.unlink(missing_ok=True)
        elif match["rest"] == "-old" and not os.path.lexists(original):
            path.rename(original)
        else:
            shutil.rmtree(path, ignore_errors=True)


_remove_stale_once = functools.cache(remove_stale_temp_files)


def _temporary(target: Path, suffix: str = "") -> Path:
    return target.with_name(f".{target.name}.{_HOST}-{os.getpid()}.tmp{suffix}")


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is synced and renamed, else removed.

    It serves writers that need a file name; the suffix of `path` is kept. Raises OSError that names
    `path`.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale_once(target.parent)
    temporary = _temporary(target, target.suffix)
    try:
        yield temporary
        with open(temporary, "rb") as handle:
            os.fsync(handle.fileno())
            os.fchmod(handle.fileno(), 0o666 & ~_UMASK)  # some writers make private files
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except OSError as error:
        about_this = error.filename in (None, str(temporary), str(target))
        raise (_error_of(target, error) if about_this else error) from None
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_write(path: str | Path, mode: str = "w", size: int = 0) -> Iterator[IO[Any]]:
    """Open `path` for writing ("w" UTF-8 text or "wb"); it appears only when it is complete.

    size: bytes that it will hold, if known. Their space is reserved before the first is written, so
    that a full disk is an OSError here and not a crash in a memory map.
    """
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    with (
        atomic_path(path) as temporary,
        open(temporary, mode, **text) as handle,  # type: ignore[call-overload]
    ):
        reserve(handle, size, Path(path))
        yield handle


def reserve(handle: IO[Any], size: int, target: Path) -> None:
    """Reserve `size` bytes for an open file. Raises OSError that names `target`."""
    if not size or not hasattr(os, "posix_fallocate"):  # macOS does not have it
        return
    try:
        os.posix_fallocate(handle.fileno(), 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # the file system cannot do it
            raise _error_of(target, error, size) from None


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file whose whole content is in memory."""
    with atomic_write(path, "wb", len(content)) as handle:
        handle.write(content)


def copy_file(source: str | Path, target: str | Path) -> None:
    """Copy a file's bytes."""
    size = Path(source).stat().st_size
    with open(source, "rb") as old, atomic_write(target, "wb", size) as new:
        shutil.copyfileobj(old, new)


@contextlib.contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`; on success it replaces `path`, on failure it is removed.

    A folder cannot be renamed over another: `path` is missing between two renames.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale_once(target.parent)
    temporary = _temporary(target)
    old = _temporary(target, "-old")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir()
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
            os.rename(target, old)
        try:
            os.rename(temporary, target)
        except OSError:
            if old.exists():
                os.rename(old, target)
            raise
        _sync_folder(target.parent)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        inside = str(error.filename or temporary).startswith(str(temporary))
        raise (_error_of(target, error) if inside else error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _plain(value: Any) -> Any:
    """The value for JSON: NaN and infinities as null, numpy scalars as plain numbers."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, int | float):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def discard(*paths: str | Path) -> None:
    """Remove files that an earlier run made; a missing one is no error."""
    for path in paths:
        Path(path).unlink(missing_ok=True)


def keep_only(folder: str | Path, stems: Collection[str]) -> None:
    """Remove from a folder all outputs but those named (without suffixes).

    A setting that params.yaml no longer lists leaves its outputs behind, and DVC would count them
    as dependencies of the stage that reads the folder.
    """
    for path in Path(folder).glob("*"):
        if path.stem in stems:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _seal(value: dict[str, Any]) -> str:
    """SHA-256 of an object's content without its seal, whatever the file's layout."""
    rest = {key: item for key, item in value.items() if key != SEAL}
    return hashlib.sha256(json.dumps(rest).encode()).hexdigest()


def write_json(path: str | Path, value: Any, sealed: bool = False) -> None:
    """Write JSON, indented, keys in the given order, NaN and infinities as null.

    sealed: an object gets its own SHA-256 as its last key; `read_json` checks and removes it.
    """
    value = _plain(value)
    if sealed:
        value[SEAL] = _seal(value)
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_bytes(path, text.encode())


def write_csv(path: str | Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table, floats with six significant digits."""
    with atomic_write(path) as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(header)
        for row in rows:
            writer.writerow([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row])


def read_json(path: str | Path, made_by: str = "") -> Any:
    """Read a JSON file. Raises InputError if it is missing or damaged, and names the stage to run."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = f": run dvc repro {made_by}" if made_by else ""
        raise InputError(f"{path} is missing{hint}") from None
    except IsADirectoryError:
        raise InputError(f"{path}: a folder; allowed: a file") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); remove it and run dvc repro") from None
    if isinstance(value, dict) and SEAL in value and value.pop(SEAL) != _seal(value):
        raise _damaged(path, made_by)
    return value


def require(path: str | Path, made_by: str) -> Path:
    """The path, if it exists. Raises InputError naming the stage that makes it."""
    if not Path(path).exists():
        raise InputError(f"{path} is missing: run dvc repro {made_by}")
    return Path(path)


def sha256(path: str | Path) -> str:
    """Hex SHA-256 of a file, read in pieces. Raises InputError for a folder."""
    try:
        with open(path, "rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except IsADirectoryError:
        raise InputError(f"{path}: a folder; allowed: a file") from None


def _damaged(path: str | Path, made_by: str) -> InputError:
    stage = f" -f -s {made_by}" if made_by else ""
    return InputError(
        f"{path}: its SHA-256 is not the one it was written with; rm {path} and run dvc repro{stage}"
    )


def check_sha256(path: str | Path, expected: str, made_by: str) -> None:
    """Raises InputError if a file is missing or its bytes changed (a damaged cache)."""
    require(path, made_by)
    if sha256(path) != expected:
        raise _damaged(path, made_by)


def write_sums(folder: str | Path, known: Mapping[str, str] | None = None) -> None:
    """Write folder/sha256.json, the SHA-256 of every other file in it, when all are complete.

    known: sums of files by name that were computed while they were written.
    """
    sums = dict(known or {})
    for path in Path(folder).iterdir():
        if path.is_file() and path.name != SUMS and not path.name.startswith("."):
            sums.setdefault(path.name, sha256(path))
    write_json(Path(folder) / SUMS, dict(sorted(sums.items())), sealed=True)


@functools.lru_cache(maxsize=64)
def _sha256_of_version(path: str, inode: int, changed_ns: int) -> str:
    return sha256(path)


def check_sums(path: str | Path, made_by: str) -> None:
    """Raises InputError if the sha256.json beside a file names other bytes than the file has.

    Nothing happens if there is no sha256.json. Each version of a file is read once in a process.
    """
    file = require(path, made_by).absolute()
    sums = file.with_name(SUMS)
    if not sums.exists():
        return
    expected = read_json(sums, made_by).get(file.name)
    state = file.stat()
    if expected is not None and expected != _sha256_of_version(
        str(file), state.st_ino, state.st_ctime_ns
    ):
        raise _damaged(path, made_by)
