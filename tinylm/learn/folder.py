"""The student's folder `exercises`, which is graded and handed in as a whole."""

import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from tinylm.base.config import InputError
from tinylm.base.files import write_bytes
from tinylm.learn.course import WORK, Exercise

LARGEST = 1_000_000  # bytes of one file
MOST = 20_000_000  # bytes of all
MADE = (".csv", ".png")  # written next to an exercise by `use` and `start`

Files = dict[str, bytes]  # {path below exercises: content}, such as loss.py


def _is_own(parts: tuple[str, ...]) -> bool:
    """Whether a path below the folder is a student's file: not hidden, not of Python's cache."""
    return bool(parts) and not any(part.startswith((".", "__pycache__")) for part in parts)


def _without_made(names: Iterable[str]) -> list[str]:
    """The names without the tables and pictures that tinylm writes next to an exercise."""
    given = set(names)
    kept = []
    for name in sorted(given):
        path = PurePosixPath(name)
        if path.suffix not in MADE or str(path.with_suffix(".py")) not in given:
            kept.append(name)
    return kept


def _check_size(files: Files) -> None:
    """Raise ValueError at the first file that is too large, or if all are too large together."""
    for name, content in files.items():
        if len(content) > LARGEST:
            raise ValueError(f"{WORK}/{name}: expected at most {LARGEST:,} bytes")
    if sum(map(len, files.values())) > MOST:
        raise ValueError(f"{WORK}: expected at most {MOST:,} bytes in all files")


def own_files() -> Files:
    """The files of the folder here. Raises InputError if they are too large to be handed in."""
    found = {}
    for path in WORK.rglob("*"):
        parts = path.relative_to(WORK).parts
        if _is_own(parts) and path.is_file():
            found["/".join(parts)] = path
    files: Files = {}
    for name in _without_made(found):
        with found[name].open("rb") as handle:
            files[name] = handle.read(LARGEST + 1)
    try:
        _check_size(files)
    except ValueError as error:
        raise InputError(f"{error}; move what is not needed out of the folder") from None
    return files


def read_zip(path: Path, course: dict[str, Exercise]) -> Files:
    """The files of one hand-in: its folder exercises, wherever in the zip it is.

    Nothing is unpacked. Raises ValueError if there is no exercise, if two folders have some, if a
    name occurs twice, or if files are too large. zipfile and its libraries raise others for a
    damaged zip.
    """
    wanted = {f"{name}.py" for name in course}
    with zipfile.ZipFile(path) as archive:
        members = []
        for info in archive.infolist():
            name = info.filename.replace("\\", "/")  # as some programs for Windows write it
            if not name.endswith("/"):
                members.append((PurePosixPath(name).parts, info))
        folders = set()
        for parts, _ in members:
            if parts[-2:-1] == (WORK.name,) and parts[-1] in wanted:
                folders.add(parts[:-1])
        if not folders:
            raise ValueError(f"it contains no {WORK}/NAME.py")
        if len(folders) > 1:
            names = ", ".join(sorted("/".join(folder) for folder in folders))
            raise ValueError(f"it contains exercises in {len(folders)} folders: {names}")
        folder = folders.pop()
        files: Files = {}
        for parts, info in members:
            below = parts[len(folder) :]
            if parts[: len(folder)] != folder or not _is_own(below):
                continue
            name = "/".join(below)
            if name in files:
                raise ValueError(f"{WORK}/{name} occurs twice")
            with archive.open(info) as member:
                files[name] = member.read(LARGEST + 1)  # whatever size the archive claims
            _check_size(files)
    return {name: files[name] for name in _without_made(files)}


def write_files(files: Files, folder: Path) -> None:
    """Write the files below a folder. Raises OSError or ValueError for an impossible name."""
    for name, content in files.items():
        write_bytes(folder / name, content)
