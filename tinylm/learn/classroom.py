"""`tinylm exercise grade`: the hand-ins of a class, each a zip file, into one table."""

import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from tinylm.base.files import write_bytes, write_csv
from tinylm.base.printable import visible
from tinylm.learn.course import WORK, Exercise
from tinylm.learn.grade import DONE, NOT_STARTED, grade, status

TABLE = "grades.csv"
MISSING = "missing"
LARGEST = 1_000_000  # bytes of a student's file

Files = dict[str, bytes]  # {name of an exercise: the student's file}


def read_zip(path: Path, course: dict[str, Exercise]) -> Files:
    """The exercises of one hand-in: its files exercises/NAME.py, in whatever folder.

    Nothing else is read, and nothing is unpacked. Raises ValueError if there is no such file, if two
    have one name, or if one is too large. zipfile and its libraries raise others for a damaged zip.
    """
    wanted = {f"{WORK}/{name}.py": name for name in course}
    files: Files = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            name = wanted.get("/".join(PurePosixPath(info.filename).parts[-2:]))
            if name is None:
                continue
            with archive.open(info) as member:
                content = member.read(LARGEST + 1)  # whatever size the archive claims
            if name in files or len(content) > LARGEST:
                raise ValueError(f"{name}.py occurs twice or has more than {LARGEST:,} bytes")
            files[name] = content
    if not files:
        raise ValueError(f"it contains no {WORK}/NAME.py")
    return files


def read_hand_in(path: str, course: dict[str, Exercise]) -> tuple[Files, str]:
    """(its exercises, ""), or ({}, the reason) if it cannot be read."""
    try:
        return read_zip(Path(path), course), ""
    except OSError as error:
        return {}, str(error.strerror)
    except ValueError as error:
        return {}, str(error)
    except Exception as error:  # zipfile and its libraries raise many kinds
        return {}, f"damaged: {visible(error)}"


def grade_files(files: Files, course: dict[str, Exercise], folder: Path) -> dict[str, str]:
    """Write the files to the folder and grade them: {exercise: done, not started or 1 of 6}."""
    results = {}
    for name, content in files.items():
        file = folder / f"{name}.py"
        write_bytes(file, content)
        results[name] = status(course[name], grade(course[name], file))
    return results


def grade_class(paths: Sequence[str], course: dict[str, Exercise]) -> None:
    """Grade all hand-ins; print a row for each as it is graded, and write grades.csv.

    The columns are the exercises that somebody has handed in, in the order of the course.
    """
    hand_ins = {path: read_hand_in(path, course) for path in paths}
    handed_in = set().union(*(files for files, _ in hand_ins.values()))
    names = [name for name in course if name in handed_in]
    header = ["hand-in", *names, "done", "problem"]
    widths = [max(map(len, paths)), *(max(len(name), 6) for name in header[1:])]
    _print_row(header, widths)
    rows = []
    for path, (files, problem) in hand_ins.items():
        with tempfile.TemporaryDirectory() as folder:
            results = grade_files(files, course, Path(folder))
        cells = [results.get(name, MISSING) for name in names]
        rows.append([visible(path), *cells, str(cells.count(DONE)), problem])
        _print_row(rows[-1], widths)
        write_csv(TABLE, header, rows)  # after each, so that an interruption loses no row
    unread = sum(bool(row[-1]) for row in rows)
    print(f"{TABLE}: {unread} of {len(rows)} hand-ins could not be read")


def _print_row(cells: Sequence[str], widths: Sequence[int]) -> None:
    """One line of the printed table, where a dash stands for an exercise without code."""
    line = ""
    for cell, width in zip(cells, widths, strict=True):
        shown = "-" if cell in (MISSING, NOT_STARTED) else cell
        line += f"{shown:<{width}}  "
    print(line.rstrip(), flush=True)
