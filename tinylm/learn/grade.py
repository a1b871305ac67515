"""Grading: the student's file runs in a process of its own, with a time limit, in an empty folder."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.learn.course import Exercise

ROOT = Path(__file__).parents[2]
PROPERTY_S = 4.0  # of computing, for the student's code in one property
WHOLE_S = 60.0  # on the clock: a busy machine needs a while to import torch


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Whether one property holds; if not, the counterexample and what it suggests."""

    name: str
    holds: bool
    lines: list[str]
    suggestion: str


def passed(outcomes: list[Outcome]) -> bool:
    """Whether all properties hold."""
    return all(outcome.holds for outcome in outcomes)


def environment() -> dict[str, str]:
    """The environment of a process that runs the student's code."""
    known = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, known))}


def order_of(exercise: Exercise, file: Path, by_student: bool = True) -> dict[str, Any]:
    """What the worker is asked. by_student: the file may not use tinylm, nor the names to avoid."""
    return {
        "check": str((exercise.folder / "check.py").resolve()),
        "file": str(file.resolve()),
        "avoid": ["tinylm", *exercise.avoid] if by_student else [],
        "seconds": PROPERTY_S,
    }


def grade(exercise: Exercise, file: Path, by_student: bool = True) -> list[Outcome]:
    """The outcome of each property, up to the one that ended the process if one did.

    Raises InputError if the file is missing.
    """
    if not file.is_file():
        raise InputError(f"{file} is missing; `tinylm exercise start {exercise.name}` writes it")
    order = order_of(exercise, file, by_student)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tinylm.learn.worker", json.dumps(order)]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=WHOLE_S,
                check=False,
            )
            told = done.stdout
            ending = [f"the process ended with code {done.returncode}"]
            ending += done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        except subprocess.TimeoutExpired as error:
            told = error.stdout or b""
            ending = [
                f"ended after {WHOLE_S:g} s: one call takes too long, or errors are swallowed"
            ]
    events = [json.loads(line) for line in told.splitlines() if line.startswith(b'{"')]
    return outcomes_of(events, ending)


def outcomes_of(events: Iterable[dict[str, Any]], ending: list[str]) -> list[Outcome]:
    """What the worker told; ending: what is known of a property that never came to its end."""
    outcomes = []
    name = ""
    for event in events:
        if "begin" in event:
            name = event["begin"]
        elif "ok" in event:
            lines = event.get("lines", [])
            outcomes.append(Outcome(name, event["ok"], lines, event.get("suggestion", "")))
            name = ""
        elif "end" in event:
            return outcomes
    return [*outcomes, Outcome(name or "the file can be graded", False, ending, "")]
