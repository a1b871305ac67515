"""Grading: the student's file runs in a separate process, with a time limit, in an empty folder."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.learn.course import Exercise

ROOT = Path(__file__).parents[2]
PROPERTY_S = 4.0  # of CPU time, for the student's code in one property
WHOLE_S = 60.0  # of wall time: a busy machine needs a while to import torch
READ = "the file can be read"
SILENT = "it prints nothing"  # the last property


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Whether one property holds; if not, the counterexample and what it suggests."""

    name: str
    holds: bool
    lines: list[str]
    suggestion: str = ""


def run_apart(
    module: str, arguments: list[str], seconds: float, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run a module of this package in a separate process. Raises subprocess.TimeoutExpired."""
    command = [sys.executable, "-m", f"tinylm.learn.{module}", *arguments]
    folders = filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    return subprocess.run(command, env=environment, timeout=seconds, check=False, **options)


def grade(exercise: Exercise) -> list[Outcome]:
    """The outcome of each property, up to the one that ended the process if one did.

    Raises InputError if the student's file is missing.
    """
    if not exercise.file.is_file():
        raise InputError(
            f"{exercise.file} is missing; `tinylm exercise start {exercise.name}` writes it"
        )
    files = [str(path.resolve()) for path in (exercise.path("check.py"), exercise.file)]
    arguments = [*files, "tinylm", *exercise.avoid]
    quiet = {"stdin": subprocess.DEVNULL, "capture_output": True}
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = run_apart("worker", arguments, WHOLE_S, cwd=folder, **quiet)
            output = done.stdout
            ending = [f"the process ended with code {done.returncode}"]
            ending += done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        except subprocess.TimeoutExpired as error:
            output = error.stdout or b""
            ending = [f"{WHOLE_S:g} s: one call takes too long, or errors are swallowed"]
    outcomes = [
        Outcome(*json.loads(line)) for line in output.splitlines() if line.startswith(b'["')
    ]
    if not outcomes or (outcomes[-1].holds and outcomes[-1].name != SILENT):
        outcomes.append(Outcome("the file can be graded", False, ending))
    return outcomes
