"""The one writer: every file of the pipeline is written and checked here.

A file appears under its final name only when it is complete: temporary name in the same folder,
fsync, rename, fsync of the folder. A reader sees the old file or the new one, never a part of it.
"""

import contextlib
import csv
import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from tinylm.base.config import InputError


def _sync(path: Path) -> None:
    """Let the system write a file or a folder's list of names to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """Yield a path next to `target`, and remove what is there at the end.

    An OSError about it, or about no file, names `target` instead.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp{target.suffix}")
    try:
        yield temporary
    except OSError as error:
        name = str(error.filename or temporary)
        if not name.startswith(str(temporary)):
            raise
        reason = error.strerror or str(error)
        raise OSError(error.errno or errno.EIO, reason, str(target)) from None
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; on success it is synced and renamed, else removed.

    It serves writers that need a file name; the suffix of `path` stays. Raises OSError that names
    `path`.
    """
    target = Path(path)
    with _temporary(target) as temporary:
        yield temporary
        _sync(temporary)
        os.replace(temporary, target)
        _sync(target.parent)


@contextlib.contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open `path` for writing ("w" UTF-8 text or "wb"); it appears only when it is complete."""
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    with (
        atomic_path(path) as temporary,
        open(temporary, mode, **text) as handle,  # type: ignore[call-overload]
    ):
        yield handle


@contextlib.contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Yield an empty folder next to `path`; on success it replaces `path`, else it is removed.

    A folder cannot be renamed to one that exists, so the old one is set aside first, as
    .NAME.PID.old, and comes back if the new one cannot take its place. Raises OSError that names
    `path`.
    """
    target = Path(path)
    with _temporary(target) as temporary:
        temporary.mkdir()
        yield temporary
        old = target.with_name(f".{target.name}.{os.getpid()}.old")
        try:
            if target.exists():
                os.rename(target, old)
            os.rename(temporary, target)
        except BaseException:
            if old.exists() and not target.exists():
                os.rename(old, target)
            raise
        _sync(target.parent)
        shutil.rmtree(old, ignore_errors=True)


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file whose whole content is in memory."""
    with atomic_write(path, "wb") as handle:
        handle.write(content)


def copy_file(source: str | Path, target: str | Path) -> None:
    """Copy a file's bytes."""
    with open(source, "rb") as old, atomic_write(target, "wb") as new:
        shutil.copyfileobj(old, new)


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


def write_json(path: str | Path, value: Any) -> None:
    """Write JSON, indented, keys in the given order, NaN and infinities as null."""
    text = json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    write_bytes(path, f"{text}\n".encode())


class TableFile:
    """A text file for csv.writer whose rows end with a line feed; ROW_END is the writer's terminator.

    The writer quotes a cell only if it contains a character of its terminator. With a line feed
    alone, a carriage return in a cell would stay unquoted, and readers would end the row there.
    """

    ROW_END = "\r\n"

    def __init__(self, handle: IO[str]) -> None:
        self.handle = handle

    def write(self, row: str) -> int:
        """Write one row."""
        return self.handle.write(row.removesuffix(self.ROW_END) + "\n")


def write_csv(path: str | Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table, floats with six significant digits."""
    with atomic_write(path) as handle:
        writer = csv.writer(TableFile(handle), lineterminator=TableFile.ROW_END)
        writer.writerow(header)
        for row in rows:
            writer.writerow([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row])


def read_json(path: str | Path, made_by: str = "") -> Any:
    """Read a JSON file. Raises InputError with the stage to run if it is missing or damaged."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = f"; run dvc repro {made_by}" if made_by else ""
        raise InputError(f"{path} is missing{hint}") from None
    except IsADirectoryError:
        raise InputError(f"{path}: expected a file, got a folder") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); remove it and run dvc repro") from None


def require(path: str | Path, made_by: str = "") -> Path:
    """The path, if it exists. Raises InputError naming the stage that makes it; "": any stage."""
    if not Path(path).exists():
        command = f"dvc repro {made_by}".rstrip()
        raise InputError(f"{path} is missing; run {command}")
    return Path(path)


def stamps(path: str | Path) -> dict[str, tuple[int, int]]:
    """{file: (size, time of its last change)} of a file, or of all files in a folder."""
    files = sorted(Path(path).rglob("*")) if Path(path).is_dir() else [Path(path)]
    found = {}
    for file in files:
        if file.is_file():
            status = file.stat()
            found[str(file)] = (status.st_size, status.st_mtime_ns)
    return found


def sha256(path: str | Path) -> str:
    """Hex SHA-256 of a file, read in pieces. Raises InputError for a folder."""
    try:
        with open(path, "rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except IsADirectoryError:
        raise InputError(f"{path}: expected a file, got a folder") from None
