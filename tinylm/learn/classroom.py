"""`tinylm exercise grade`: the hand-ins of a class, each a zip file, into one table."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path

from tinylm.base.config import InputError
from tinylm.base.files import write_csv
from tinylm.base.printable import visible
from tinylm.learn.course import Exercise
from tinylm.learn.folder import Files, misnamed, read_zip
from tinylm.learn.grade import DONE, NOT_STARTED, grade, problem, status

TABLE = "grades.csv"
HAND_IN = "hand-in"  # its first column
MISSING = "missing"
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet computes


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


def grade_files(files: Files, course: dict[str, Exercise]) -> tuple[dict[str, str], str]:
    """({exercise: done, not started or 1 of 6}, why some could not be graded)"""
    results: dict[str, str] = {}
    problems = []
    for name, exercise in course.items():
        if f"{name}.py" not in files:
            continue
        try:
            outcomes = grade(exercise, files)
        except (OSError, ValueError) as error:  # a name that this system does not allow
            return results, f"cannot be written here: {error}"
        results[name] = status(exercise, outcomes)
        if reason := problem(outcomes):
            problems.append(f"{name}: {reason}")
    return results, "; ".join(problems + misnamed(files, course))


def _earlier_rows(course: dict[str, Exercise]) -> dict[str, dict[str, str]]:
    """The rows of grades.csv by hand-in. Raises InputError if the table is not of this command."""
    if not Path(TABLE).exists():
        return {}
    ours = {HAND_IN, *course, "done", "problem"}
    try:
        with open(TABLE, newline="", encoding="utf-8-sig") as handle:
            reader = csv.DictReader(handle)
            columns = reader.fieldnames or []
            rows = {_place(row.get(HAND_IN) or ""): row for row in reader}
    except ValueError as error:
        raise InputError(f"{TABLE}: expected UTF-8 ({error}); move it away") from None
    if columns[:1] != [HAND_IN] or not set(columns) <= ours:
        raise InputError(
            f"{TABLE}: expected a table that this command wrote, got columns {', '.join(columns)}; move it away"
        )
    return rows


def _place(path: str) -> str:
    """The path from here, the same for every spelling of it. Links to folders are followed; a link to the file itself is not."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.relpath(os.path.realpath(folder)), name).removeprefix("./")


def _cell(text: str) -> str:
    """Text for a table: control characters spelt out, and no formula."""
    text = visible(text).replace("\n", " ")
    return f"'{text}" if text.startswith(FORMULA) else text


def grade_class(paths: Sequence[str], course: dict[str, Exercise]) -> None:
    """Grade all hand-ins; print a row for each as it is graded, and write grades.csv.

    The columns are the exercises that somebody has handed in, in the order of the course. Rows of
    an earlier table stay, except those of hand-ins that are graded again, whichever way their paths
    are spelled. Raises InputError, before anything is graded, if a path is still a pattern, such as
    hand-ins/*.zip: the shell passes a pattern on unchanged when no file matches it.
    """
    for path in paths:
        if set(path) & set("*?[") and not os.path.exists(path):
            raise InputError(f"no file matches {visible(path)}; no hand-in was graded")
    hand_ins = {_place(path): read_hand_in(path, course) for path in paths}
    earlier = _earlier_rows(course)
    before = earlier.keys() - set(map(_cell, hand_ins))
    handed_in = set().union(*(files for files, _ in hand_ins.values()), *earlier.values())
    names = [name for name in course if handed_in & {name, f"{name}.py"}]
    header = [HAND_IN, *names, "done", "problem"]
    widths = [max(map(len, map(_cell, hand_ins))), *(max(len(name), 6) for name in header[1:])]
    _print_row(header, widths)
    table = {}
    for path, row in earlier.items():
        table[path] = [row.get(name, MISSING) for name in header]
    for path, (files, unreadable) in hand_ins.items():
        results, ungraded = grade_files(files, course)
        cells = [results.get(name, MISSING) for name in names]
        done = str(cells.count(DONE))
        table[_cell(path)] = [_cell(path), *cells, done, _cell(unreadable or ungraded)]
        _print_row(table[_cell(path)], widths)
        write_csv(TABLE, header, table.values())  # after each, so that an interruption loses no row
    unread = sum(not files for files, _ in hand_ins.values())
    print(f"{TABLE}: {unread} of {len(hand_ins)} hand-ins could not be read")
    if before:
        print(f"{TABLE}: rows kept from earlier grading: {len(before)}")


def _print_row(cells: Sequence[str], widths: Sequence[int]) -> None:
    """One line of the printed table, where a dash stands for an exercise without code."""
    line = ""
    for cell, width in zip(cells, widths, strict=True):
        shown = "-" if cell in (MISSING, NOT_STARTED) else cell
        line += f"{shown:<{width}}  "
    print(line.rstrip(), flush=True)
