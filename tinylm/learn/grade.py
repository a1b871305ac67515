"""Grading: the student's file runs in a separate process, with a time limit."""

import json
import subprocess
import sys
from typing import NamedTuple

from tinylm.learn.course import Exercise

WHOLE_S = 60.0  # of wall time: a busy machine needs a while to import torch
READ = "the file can be read"
END = "end"  # printed after the last outcome


class Outcome(NamedTuple):
    """Whether one property holds; if not, the counterexample and what it suggests."""

    name: str
    holds: bool
    lines: list[str]
    suggestion: str = ""


def grade(exercise: Exercise) -> list[Outcome]:
    """The outcome of each property, up to the one that ended the process if one did."""
    worker = [sys.executable, "-m", "tinylm.learn.worker"]
    files = [str(exercise.path("check.py")), str(exercise.file)]
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
