"""The actions of `tinylm exercise`; they print for the student."""

import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tinylm.base.command import CommandFailed
from tinylm.base.config import InputError
from tinylm.base.files import read_json, write_bytes, write_json
from tinylm.base.printable import visible
from tinylm.learn.course import WORK, Exercise, load_course
from tinylm.learn.folder import own_files
from tinylm.learn.grade import DONE, NOT_STARTED, checks, grade, status

STATE = WORK / ".state.json"  # {NAME: status at the last check}
UNCHECKED = "not checked yet"


def _state() -> dict[str, Any]:
    return read_json(STATE) if STATE.exists() else {}


def show_list(course: dict[str, Exercise]) -> None:
    """One line for each exercise, with its progress at the last check."""
    state = _state()
    progress = []
    for exercise in course.values():
        is_there = exercise.file.exists()
        progress.append(state.get(exercise.name, UNCHECKED) if is_there else NOT_STARTED)
        session = f"session {exercise.session}" if exercise.session else ""
        line = f"{session:<9}  {exercise.part:<10} {exercise.name:<13} {exercise.minutes} min"
        print(f"{line}  {exercise.title:<48} {progress[-1]}")
    print(
        f"\n{progress.count(DONE)} of {len(course)} exercises are done. "
        "To start one, run: tinylm exercise start NAME"
    )


def start(exercise: Exercise) -> None:
    """Write the student's file. Raises InputError if there is one already."""
    if exercise.file.exists():
        raise InputError(f"{exercise.file} already exists; delete it to start again")
    write_bytes(exercise.file, exercise.start().encode())
    print(exercise.texts()[0])
    if exercise.part == "diagnose":
        print(f"\nours: a healthy run; yours: with the bug\n\n{exercise.read('samples.txt')}")
        print(f"{draw(exercise)}: the curves of both runs")
    print(f"\n{exercise.file}: edit it, then `tinylm exercise check {exercise.name}`")


def draw(exercise: Exercise) -> Path:
    """Draw run.csv next to the student's file, a panel for each metric; returns the picture."""
    import pandas as pd

    from tinylm.report.drawing import in_style, to_png

    frame = pd.read_csv(exercise.path("run.csv"), index_col=0).interpolate(limit_area="inside")
    half = len(frame.columns) // 2
    panels = list(zip(frame.columns[:half], frame.columns[half:], strict=True))
    with in_style():
        axes = frame.plot(subplots=panels, figsize=(7.0, 2.6 * half), title=exercise.title)
    path = exercise.file.with_suffix(".png")
    write_bytes(path, to_png(axes[0].figure))
    return path


def graded(exercise: Exercise) -> tuple[str, str]:
    """(status, a line for each property); the first wrong one has its counterexample."""
    outcomes = grade(exercise, own_files(load_course()))
    result = status(exercise, outcomes)
    if result not in (DONE, NOT_STARTED):
        result = f"in progress, {result} checks"
    write_json(STATE, _state() | {exercise.name: result})
    if result == NOT_STARTED:
        return result, f"  {exercise.file} still raises NotImplementedError"
    wrong = [outcome for outcome in outcomes if not outcome.holds]
    counted = checks(exercise.path("check.py"))
    lines = []
    for outcome in outcomes:
        if outcome.holds and outcome.name not in counted:  # that the file can be read
            continue
        lines.append(f"  {'ok   ' if outcome.holds else 'WRONG'} {outcome.name}")
        if outcome in wrong[:1]:
            lines += [f"          {visible(line)}" for line in outcome.lines]
            if outcome.suggestion:
                lines.append(f"        > {visible(outcome.suggestion)}")
    return result, "\n".join(lines)


def check(exercise: Exercise) -> None:
    """Grade the student's file. Raises CommandFailed unless all properties hold."""
    result, properties = graded(exercise)
    print(f"{exercise.name}: {exercise.title}\n{properties}")
    if result != DONE:
        again = f"tinylm exercise check {exercise.name} --hint 1 gives a hint"
        raise CommandFailed(f"{exercise.name} is not done yet; {again}")
    print(f"{exercise.name} is done; tinylm exercise show {exercise.name} shows our solution")


def started(course: dict[str, Exercise]) -> list[Exercise]:
    """The exercises whose file exists. Raises InputError if there is none."""
    found = [exercise for exercise in course.values() if exercise.file.exists()]
    if not found:
        raise InputError(f"{WORK}: no exercise has been started; tinylm exercise list shows all")
    return found


def use(exercise: Exercise) -> None:
    """Run the project with the student's file in a separate process.

    Raises InputError if it cannot be used, CommandFailed if it fails or computes for too long.
    """
    if not exercise.path("use.py").is_file():
        raise InputError(f"{exercise.name} is not used in a run; tinylm exercise check grades it")
    words = [sys.executable, "-m", "tinylm.learn.use", str(exercise.folder), str(exercise.file)]
    if subprocess.run(words, check=False).returncode:
        raise CommandFailed(f"{exercise.name}: the run failed")


def show(exercise: Exercise) -> None:
    """Print the project's part behind the exercise's signature, then its source and place."""
    print(exercise.solution())
    for entry in exercise.project:
        path, name = entry.split()
        module = path.removesuffix(".py").replace("/", ".")
        lines, first = inspect.getsourcelines(pkgutil.resolve_name(f"{module}:{name}"))
        print(f"\n# {path}, line {first}\n{''.join(lines)}")
