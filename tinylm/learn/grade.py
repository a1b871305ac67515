"""Grading: the student's file runs in a separate process, with a time limit."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tinylm.learn.course import Exercise

WHOLE_S = 60.0  # of wall time: a busy machine needs a while to import torch
READ = "the file can be read"
UNWRITTEN = "you have not written this part yet"
END = "end"  # printed after the last outcome

DONE = "done"
NOT_STARTED = "not started"


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


def grade(exercise: Exercise, file: Path) -> list[Outcome]:
    """The outcome of each property, up to the one that ended the process if one did."""
    worker = [sys.executable, "-m", "tinylm.learn.worker"]
    files = [str(exercise.path("check.py")), str(file)]
    try:
        done = subprocess.run(
            [*worker, *files, "tinylm", *exercise.avoid],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WHOLE_S,
            check=False,
        )
        output = done.stdout
        ending = [f"the process ended with code {done.returncode}"]
        ending += done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
        ending = [f"{WHOLE_S:g} s: one call takes too long, or errors are swallowed"]
    outcomes = [
        Outcome(*json.loads(line)) for line in output.splitlines() if line.startswith(b'["')
    ]
    if not output.rstrip().endswith(END.encode()):
        outcomes.append(Outcome("the file can be graded", False, ending))
    return outcomes


def status(exercise: Exercise, outcomes: list[Outcome]) -> str:
    """done, not started, or how many checks hold, such as `3 of 5`."""
    names = checks(exercise.path("check.py"))
    held = sum(outcome.holds for outcome in outcomes if outcome.name in names)
    wrong = [outcome for outcome in outcomes if not outcome.holds]
    if not wrong and held == len(names):
        return DONE
    if held == 0 and all(outcome.suggestion == UNWRITTEN for outcome in wrong):
        return NOT_STARTED
    return f"{held} of {len(names)}"
