"""What each action of `tinylm exercise` does; it prints for the student."""

import importlib
import inspect
import operator
from collections.abc import Iterator
from pathlib import Path

from tinylm.base.config import InputError
from tinylm.base.files import read_json, write_bytes, write_json
from tinylm.base.printable import visible
from tinylm.host.command import CommandFailed
from tinylm.learn.course import PARTS, WORK, Exercise
from tinylm.learn.grade import Outcome, grade, passed

STATE = WORK / ".state.json"  # {exercise: {"hints": shown, "checked": ..., "passed": ...}}
LONGEST_SAMPLE = 700


def _state() -> dict[str, dict[str, int]]:
    return read_json(STATE) if STATE.exists() else {}


def _remember(exercise: Exercise, key: str, value: int) -> None:
    state = _state()
    state.setdefault(exercise.name, {})[key] = value
    write_json(STATE, state)


def hints_used(exercise: Exercise) -> int:
    """How many hints the student has asked for."""
    return _state().get(exercise.name, {}).get("hints", 0)


def show_list(course: dict[str, Exercise]) -> None:
    """One line for each exercise, with the result of its last check."""
    state = _state()
    part = ""
    for exercise in course.values():
        if exercise.part != part:
            part = exercise.part
            print(PARTS[part])
        status = "" if not exercise.file.exists() else "started"
        last = state.get(exercise.name, {}).get("passed")
        if status and last is not None:
            status = "passed" if last else "not yet right"
        print(
            f"  {exercise.name:<12} {exercise.minutes:>3} min  {exercise.title:<48} {status}".rstrip()
        )
    print("\n`tinylm exercise start NAME` writes exercises/NAME.py; docs/teach.md has the course")


def start(exercise: Exercise, force: bool = False) -> None:
    """Write the student's file. Raises InputError if there is one already."""
    if exercise.file.exists() and not force:
        raise InputError(f"{exercise.file} exists; --force writes over it")
    write_bytes(exercise.file, exercise.start().encode())
    print(exercise.task())
    if (exercise.folder / "run.csv").exists():
        print(f"\nwhat the model wrote:\n{exercise.read('samples.txt')[:LONGEST_SAMPLE].strip()}")
        print(f"\n{draw(exercise)}: the curves of this run and of a healthy one")
    print(f"\n{exercise.file}: write your part there, then `tinylm exercise check {exercise.name}`")


def draw(exercise: Exercise) -> Path:
    """Draw run.csv, a line for each metric of both runs, next to the student's file; returns the picture."""
    import pandas as pd
    from matplotlib import rc_context

    from tinylm.report.charts import draw_lines
    from tinylm.report.drawing import STYLE, to_png

    frame = pd.read_csv(exercise.folder / "run.csv").melt("step", var_name="series").dropna()
    frame["series"] = frame["series"].replace(
        {"^ours": "healthy", "^yours": "this run"}, regex=True
    )
    with rc_context(STYLE):
        picture = draw_lines(frame.rename(columns={"step": "x"}), exercise.title, "step", "value")
    path = exercise.file.with_suffix(".png")
    write_bytes(path, to_png(picture.drawing))
    return path


def show_hint(exercise: Exercise) -> None:
    """The next hint, or all of them when there is no other."""
    hints = exercise.hints()
    count = min(hints_used(exercise) + 1, len(hints))
    _remember(exercise, "hints", count)
    print(f"hint {count} of {len(hints)}: {hints[count - 1].partition(chr(10))[2]}")


def lines_of(outcome: Outcome) -> Iterator[str]:
    """An outcome for the terminal and for the page of results."""
    yield f"  {'ok   ' if outcome.holds else 'WRONG'} {outcome.name}"
    for line in outcome.lines:
        yield f"          {visible(line)}"
    if outcome.suggestion:
        yield f"        > {visible(outcome.suggestion)}"


def check(exercise: Exercise) -> None:
    """Grade the student's file. Raises CommandFailed unless all properties hold."""
    outcomes = grade(exercise, exercise.file)
    print(f"{exercise.name}: {exercise.title}")
    is_first = True
    for outcome in outcomes:
        if is_first or outcome.holds:
            print("\n".join(lines_of(outcome)))
        else:
            print(f"  WRONG {outcome.name}")
        is_first = is_first and outcome.holds
    _remember(exercise, "passed", int(passed(outcomes)))
    if not passed(outcomes):
        count = sum(outcome.holds for outcome in outcomes)
        raise CommandFailed(
            f"{exercise.name}: {count} of {len(outcomes)} properties hold; "
            f"tinylm exercise check {exercise.name} --hint gives a hint"
        )
    print(f"all {len(outcomes)} properties hold; `tinylm exercise show {exercise.name}` shows ours")


def show(exercise: Exercise) -> None:
    """The project's part behind the exercise's signature, then its source and place."""
    print(exercise.solution())
    for path, names in exercise.project.items():
        for name in names.split():
            first, text = source_of(path, name)
            print(f"\n# {path}, line {first}\n{text}")


def source_of(path: str, name: str) -> tuple[int, str]:
    """(first line, source) of a function or class, or of a method written Class.method.

    path: of its file in the project. Raises AttributeError if it has no such name.
    """
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    lines, first = inspect.getsourcelines(operator.attrgetter(name)(module))
    return first, "".join(lines)
