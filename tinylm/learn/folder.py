"""The student's folder `exercises`, which is graded and handed in as a whole."""

import contextlib
import re
import unicodedata
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from tinylm.base.config import InputError
from tinylm.base.files import write_bytes
from tinylm.learn.course import WORK, Exercise

LARGEST = 1_000_000  # bytes of one file
MOST = 20_000_000  # bytes of all
UTF8_FLAG = 0x800  # of a zip: its names are UTF-8
MADE = (".csv", ".png")  # written next to an exercise by `use` and `start`
SUFFIX = re.compile(r"([ _-]*(\(\d\d?\)|copy|final|new|v?\d\d?))?")  # of a renamed file

Files = dict[str, bytes]  # {path below exercises: content}, such as loss.py


def _is_own(parts: tuple[str, ...]) -> bool:
    """Whether a path below the folder is a student's file: not hidden, not of Python's cache."""
    return bool(parts) and not any(part.startswith((".", "__pycache__")) for part in parts)


def _without_made(names: Iterable[str], course: Iterable[str]) -> list[str]:
    """The names without the tables and pictures that tinylm writes next to an exercise."""
    made = set()
    for exercise in course:
        made |= {f"{exercise}{suffix}" for suffix in MADE}
    return sorted(set(names) - made)


def _check_size(files: Files) -> None:
    """Raise ValueError at the first file that is too large, or if all are too large together."""
    for name, content in files.items():
        if len(content) > LARGEST:
            raise ValueError(f"{WORK}/{name}: expected at most {LARGEST:,} bytes")
    if sum(map(len, files.values())) > MOST:
        raise ValueError(f"{WORK}: expected at most {MOST:,} bytes in all files")


def own_files(course: Iterable[str]) -> Files:
    """The files of the folder here, but for what tinylm writes next to the exercises of the course.

    Raises InputError if they are too large to be handed in.
    """
    found = {}
    for path in WORK.rglob("*"):
        parts = path.relative_to(WORK).parts
        if _is_own(parts) and path.is_file():
            found["/".join(parts)] = path
    files: Files = {}
    for name in _without_made(found, course):
        with found[name].open("rb") as handle:
            files[name] = handle.read(LARGEST + 1)
    try:
        _check_size(files)
    except ValueError as error:
        raise InputError(f"{error}; move what is not needed out of the folder") from None
    return files


def _name_of(info: zipfile.ZipInfo) -> str:
    """The path of a file in a zip, in the form that an import of it has."""
    name = info.filename
    if not info.flag_bits & UTF8_FLAG:  # some programs write UTF-8 without saying so
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode("utf-8")
    # Windows may write backslashes; macOS stores letters and their accents separately.
    return unicodedata.normalize("NFC", name.replace("\\", "/"))


def _above(folder: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The folders that contain this one."""
    return [folder[:length] for length in range(len(folder))]


def misnamed(files: Iterable[str], course: Iterable[str]) -> list[str]:
    """A line for each file whose name is that of a missing exercise apart from case or a suffix."""
    given = set(files)
    lines = []
    for name in sorted(given):
        stem = name.casefold().removesuffix(".txt").removesuffix(".py")
        for exercise in course:
            is_like_it = stem.startswith(exercise) and SUFFIX.fullmatch(stem[len(exercise) :])
            if is_like_it and name != f"{exercise}.py" and f"{exercise}.py" not in given:
                lines.append(f"{name} is not graded; expected {exercise}.py")
    return lines


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
            name = _name_of(info)
            if not name.endswith("/"):
                members.append((PurePosixPath(name).parts, info))
        folders = set()
        for parts, _ in members:
            if parts[-2:-1] == (WORK.name,) and parts[-1] in wanted:
                folders.add(parts[:-1])
        if not folders:
            present = [parts[-1] for parts, _ in members if parts[-2:-1] == (WORK.name,)]
            hints = "".join(f"; {line}" for line in misnamed(present, course))
            raise ValueError(f"it contains no {WORK}/NAME.py{hints}")
        nested = {folder for folder in folders if folders & set(_above(folder))}
        folders -= nested  # copies that a student keeps inside the folder
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
    return {name: files[name] for name in _without_made(files, course)}


def write_files(files: Files, folder: Path) -> None:
    """Write the files below a folder. Raises OSError or ValueError for an impossible name."""
    for name, content in files.items():
        write_bytes(folder / name, content)
