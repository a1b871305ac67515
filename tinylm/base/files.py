"""The one writer: every file of the pipeline is written and checked here.

A file appears under its final name only when it is complete: temporary name in the same folder, space reserved if the
size is known, fsync, rename, fsync of the folder. A reader sees the old file or the new one, never a part.
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
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tinylm.base.config import InputError, refuse_endless

SUMS, SEAL, DISK_FULL = "sha256.json", "sha256_of_the_rest", "disk full"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_UMASK = os.umask(0o022)  # the only way to ask for it is to set it
os.umask(_UMASK)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _named(error: OSError, target: Path, temporary: Path, needed: int = 0) -> OSError:
    """An error with the file it is about; if the disk is full, also the bytes that were needed and are free."""
    name = str(error.filename or "")
    if error.errno in _FULL:
        if str(error.strerror).startswith(DISK_FULL):
            return error
        disk = os.statvfs(target if target.is_dir() else target.parent)
        wanted = f"{needed:,} bytes needed, " if needed else ""
        return OSError(
            error.errno, f"{DISK_FULL}: {wanted}{disk.f_bavail * disk.f_frsize:,} free", str(target)
        )
    if name and Path(name).is_relative_to(temporary):
        return OSError(error.errno, error.strerror, str(target / Path(name).relative_to(temporary)))
    if not name and error.errno in (errno.EIO, errno.EFBIG, None):  # None: NumPy's, in words
        return OSError(error.errno or errno.EIO, error.strerror or str(error), str(target))
    return error


def is_alive(pid: int) -> bool:
    """Whether a process may still be working: not one that was killed and that its parent has not reaped yet."""
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

    Folders too (`atomic_folder`): an unfinished one is removed; one that was to be replaced and is already moved aside
    is restored.
    """
    for path in sorted(Path(folder).glob("**/.*.tmp*" if below else ".*.tmp*")):
        # the last number: a name of the pipeline may contain ".tmp" itself
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


_sweep_once = functools.cache(sweep)  # before the first file that a process writes there


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is synced and renamed, on failure removed.

    For writers that need a file name. Raises OSError that names `path`, and the free bytes if the disk is full.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep_once(target.parent)
    temporary = target.with_name(f".{target.stem}.{os.getpid()}.tmp{target.suffix}")
    try:
        yield temporary
        with open(temporary, "rb") as handle:
            os.fsync(handle.fileno())
            os.fchmod(
                handle.fileno(), 0o666 & ~_UMASK
            )  # some writers make files that only their owner may read
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except OSError as error:
        raise _named(error, target, temporary) from None
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_write(path: str | Path, mode: str = "w", size: int = 0) -> Iterator[IO[Any]]:
    """Open `path` for writing ("w" UTF-8 text or "wb"); the file appears under its name only when complete.

    size: bytes that it will hold, if known; their space is reserved before the first is written.
    """
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    with atomic_path(path) as temporary, open(temporary, mode, **text) as handle:  # type: ignore[call-overload]
        try:
            reserve(handle, size)
        except OSError as error:
            raise _named(error, Path(path), temporary, size) from None
        yield handle


@contextlib.contextmanager
def scratch_file(folder: str | Path) -> Iterator[IO[bytes]]:
    """An unbuffered file without a name on the disk of `folder`, gone with the process. Its errors name the folder."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryFile(buffering=0, dir=place) as handle:
            yield handle
    except OSError as error:
        raise _named(error, place, place) from None


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file whose whole content is in memory."""
    with atomic_write(path, "wb", len(content)) as handle:
        handle.write(content)


def copy_file(source: str | Path, target: str | Path) -> None:
    """Copy a file's bytes."""
    with (
        open(source, "rb") as old,
        atomic_write(target, "wb", os.fstat(old.fileno()).st_size) as new,
    ):
        shutil.copyfileobj(old, new)


@contextlib.contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`; on success it replaces what is there, on failure it is removed.

    A folder cannot be renamed over another: for a moment, in which nothing but two renames happens, `path` is missing.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = (
        target.with_name(f".{target.name}.{os.getpid()}.tmp{n}") for n in ("", "-old")
    )
    _sweep_once(target.parent)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir()
        yield temporary
        replaces = target.exists()
        if replaces:
            if not os.access(target, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
            shutil.copymode(target, temporary)
            os.rename(target, old)
        try:
            os.rename(temporary, target)
        except OSError:
            if replaces:
                os.rename(old, target)
            raise
        _sync_folder(target.parent)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise _named(error, target, temporary) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def rename_folder(source: Path, target: Path) -> None:
    """Give a folder another name beside its own."""
    os.rename(source, target)
    _sync_folder(target.parent)


def reserve(handle: IO[Any], size: int) -> None:
    """Reserve `size` bytes for an open file, so a full disk is an OSError here and not a half-written file."""
    if size:
        try:
            os.posix_fallocate(handle.fileno(), 0, size)
        except OSError as error:
            if error.errno not in (
                errno.EOPNOTSUPP,
                errno.EINVAL,
            ):  # file systems that cannot do it
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
    """Remove from a folder of several stages' outputs all but those named (without suffixes).

    A setting that is no longer asked for leaves its outputs (DVC's cache keeps them too), and DVC would count them as
    dependencies of the stage that reads the folder: a clone that pulls the others would run that stage again.
    """
    for path in Path(folder).glob("*"):
        if path.stem in stems:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _digest(value: dict[str, Any]) -> str:
    """SHA-256 of an object's content without its seal, however the file is laid out."""
    rest = {key: item for key, item in value.items() if key != SEAL}
    return hashlib.sha256(json.dumps(rest).encode()).hexdigest()


def write_json(path: str | Path, value: Any, sealed: bool = False) -> None:
    """Write JSON: indented, keys in the given order, NaN and infinities as null, newline at the end.

    sealed: an object gets its own SHA-256 as its last key, which `read_json` checks and removes.
    """
    value = _clean(value)
    if sealed:
        value |= {SEAL: _digest(value)}
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_bytes(path, text.encode())


def write_csv(path: str | Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table, floats with six significant digits."""
    with atomic_write(path) as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(
            [f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows
        )


def _refuse_no_file(path: str | Path) -> None:
    """InputError for a folder, and for what `refuse_endless` refuses. A missing path passes."""
    refuse_endless(path)
    if Path(path).is_dir():
        raise InputError(f"{path}: a folder; allowed: a file")


def read_json(path: str | Path, made_by: str = "") -> Any:
    """Read a JSON file; InputError names the file, and the stage that makes it if it is missing or damaged."""
    _refuse_no_file(path)
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = f": run dvc repro {made_by}" if made_by else ""
        raise InputError(f"{path} is missing{hint}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); remove it and run dvc repro") from None
    if isinstance(value, dict) and SEAL in value and value.pop(SEAL) != _digest(value):
        raise InputError(_damaged(path, made_by))
    return value


def require(path: str | Path, made_by: str) -> Path:
    """Return the path if it exists and is not a pipe or device; else InputError naming the stage that makes it."""
    refuse_endless(path)
    if not Path(path).exists():
        raise InputError(f"{path} is missing: run dvc repro {made_by}")
    return Path(path)


def sha256(path: str | Path) -> str:
    """Hex SHA-256 of a file, read in pieces. Raises InputError for a folder, pipe or device."""
    _refuse_no_file(path)
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _damaged(path: str | Path, made_by: str) -> str:
    again = f" -f -s {made_by}" if made_by else ""
    return f"{path}: its SHA-256 is not the one it was written with; rm {path} and run dvc repro{again}"


def check_sha256(path: str | Path, expected: str, made_by: str) -> None:
    """InputError if a file of ours is missing or its bytes are not those that were written (a damaged cache)."""
    require(path, made_by)
    if sha256(path) != expected:
        raise InputError(_damaged(path, made_by))


@functools.lru_cache(maxsize=64)
def _check_once(_: str, expected: str, made_by: str, path: str, __: tuple[int, int]) -> None:
    check_sha256(path, expected, made_by)


def write_sums(folder: str | Path, known: Mapping[str, str] | None = None) -> None:
    """Write folder/sha256.json: the SHA-256 of every other file in it. Call it when all are there.

    known: sums of files by name, taken as they were written.
    """
    files = [
        path for path in sorted(Path(folder).iterdir()) if path.is_file() and path.name[0] != "."
    ]
    known = known or {}
    sums = {path.name: known.get(path.name) or sha256(path) for path in files if path.name != SUMS}
    write_json(Path(folder) / SUMS, sums, sealed=True)


def check_sums(path: str | Path, made_by: str) -> None:
    """InputError if the sha256.json beside a file names other bytes than it has; nothing if there is none."""
    _refuse_no_file(require(path, made_by))
    sums = Path(path).with_name(SUMS)
    known = read_json(sums, made_by) if sums.exists() else {}
    if not isinstance(known, dict):
        raise InputError(_damaged(sums, made_by))
    expected = known.get(Path(path).name)
    if expected is not None:
        state = os.stat(path)
        _check_once(
            str(Path(path).absolute()),
            expected,
            made_by,
            str(path),
            (state.st_ino, state.st_ctime_ns),
        )
