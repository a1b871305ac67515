"""Grading: a student's folder is graded in a separate process, which runs its code in copies of itself."""

import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tinylm.learn.course import WORK, Exercise
from tinylm.learn.folder import Files, write_files

LAST_S = 1800.0  # of wall time: only a grader that student code has stopped takes as long
READ = "the file can be read"
GRADED = "the file can be graded"
UNWRITTEN = "you have not written this part yet"
END = "end"  # printed after the last outcome

DONE = "done"
NOT_STARTED = "not started"

# The same everywhere: order of sets, encoding of files and output, and plots without a window.
SURROUNDINGS = {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "MPLBACKEND": "agg"}


class Outcome(NamedTuple):
    """Whether one property holds; if not, the counterexample and what it suggests."""

    name: str
    holds: bool
    lines: list[str]
    suggestion: str = ""


def checks(path: str | Path) -> dict[str, str]:
    """{property: the function of check.py that tests it}; the property is the docstring."""
    found = {}
    for node in ast.parse(Path(path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            found[ast.get_docstring(node) or ""] = node.name
    return found


def grade(exercise: Exercise, files: Files) -> list[Outcome]:
    """The outcome of each property for a student's folder, up to the first that takes too long.

    The files are graded in a new folder, so that they find there what a teacher has of them. Raises
    OSError or ValueError for a file that cannot be written.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        write_files(files, Path(folder) / WORK)
        words = [sys.executable, "-m", "tinylm.learn.worker", str(exercise.path("check.py"))]
        words += [str(folder / exercise.file), "tinylm", *exercise.avoid]
        with subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | SURROUNDINGS,
        ) as worker:
            try:
                output, errors = worker.communicate(timeout=LAST_S)
            except subprocess.TimeoutExpired:
                worker.kill()
                output, errors = worker.communicate()
            except BaseException:
                worker.terminate()  # it ends what it has started
                raise
    lines = output.decode().rpartition("\n")[0].splitlines()  # whole lines
    is_whole = lines[-1:] == [END]
    outcomes = [Outcome(*json.loads(line)) for line in lines if line != END]
    if not is_whole:
        last_lines = errors.decode(errors="replace").strip().splitlines()[-1:]
        reason = [f"the grader ended with code {worker.returncode}", *last_lines]
        outcomes.append(Outcome(GRADED, False, reason))
    return outcomes


def problem(outcomes: list[Outcome]) -> str:
    """Why a file could not be graded, in one line; "" if it could."""
    for outcome in outcomes:
        if outcome.name in (READ, GRADED) and not outcome.holds:
            return outcome.lines[-1] if outcome.lines else outcome.name
    return ""


def status(exercise: Exercise, outcomes: list[Outcome]) -> str:
    """done, not started, or how many checks hold, such as `3 of 5`."""
    names = checks(exercise.path("check.py"))
    held = sum(outcome.holds for outcome in outcomes if outcome.name in names)
    wrong = [outcome for outcome in outcomes if not outcome.holds]
    if not wrong and held == len(names):
        return DONE
    if wrong and held == 0 and all(outcome.suggestion == UNWRITTEN for outcome in wrong):
        return NOT_STARTED
    return f"{held} of {len(names)}"
