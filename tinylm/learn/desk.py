"""The actions of `tinylm exercise`; they print for the student."""

import importlib
import inspect
import operator
import subprocess
from pathlib import Path

from tinylm.base.config import InputError
from tinylm.base.files import read_json, sha256, write_bytes, write_json
from tinylm.base.printable import visible
from tinylm.host.command import CommandFailed
from tinylm.learn.course import PARTS, WORK, Exercise
from tinylm.learn.grade import SILENT, Outcome, grade, run_apart

STATE = WORK / ".state.json"  # {exercise: {"hints": shown, "passed": at the last check}}
PAGE = WORK / "results.md"
USE_S = 88.0


def _state() -> dict[str, dict[str, int]]:
    return read_json(STATE) if STATE.exists() else {}


def _remember(exercise: Exercise, key: str, value: int) -> None:
    state = _state()
    state.setdefault(exercise.name, {})[key] = value
    write_json(STATE, state)


def hints_used(exercise: Exercise) -> int:
    """The number of hints shown so far."""
    return _state().get(exercise.name, {}).get("hints", 0)


def show_list(course: dict[str, Exercise]) -> None:
    """One line for each exercise, with the result of its last check."""
    state = _state()
    for part, heading in PARTS.items():
        print(heading)
        for exercise in course.values():
            if exercise.part != part:
                continue
            status = "started" if exercise.file.exists() else ""
            last = state.get(exercise.name, {}).get("passed")
            if status and last is not None:
                status = "passed" if last else "not yet right"
            line = f"  {exercise.name:<12} {exercise.minutes:>3} min  {exercise.title:<48} {status}"
            print(line.rstrip())
    print("\n`tinylm exercise start NAME` writes exercises/NAME.py; docs/teach.md has the course")


def start(exercise: Exercise, force: bool = False) -> None:
    """Write the student's file. Raises InputError if there is one already."""
    if exercise.file.exists() and not force:
        raise InputError(f"{exercise.file} exists; --force writes over it")
    write_bytes(exercise.file, exercise.start().encode())
    print(exercise.task())
    if exercise.path("run.csv").exists():
        print(f"\nWhat was written\n{_of_clinic(exercise.read('samples.txt'))}")
        print(f"\n{draw(exercise)}: the curves of this run and of a healthy one")
    print(f"\n{exercise.file}: write your part there, then `tinylm exercise check {exercise.name}`")


def _of_clinic(text: str) -> str:
    """What `use` wrote, with the names that a clinic gives to the two runs."""
    return text.replace("yours:", "this run:").replace("ours:", "healthy:")


def draw(exercise: Exercise) -> Path:
    """Draw run.csv next to the student's file; returns the picture.

    It has a panel for each metric, and one for the difference between the runs if there are several.
    """
    import pandas as pd

    from tinylm.report.drawing import in_style, to_png

    frame = pd.read_csv(exercise.path("run.csv"), index_col=0).interpolate(limit_area="inside")
    frame.columns = pd.Index([_of_clinic(name) for name in frame.columns])
    half = len(frame.columns) // 2
    panels: list[tuple[str, ...]] = list(
        zip(frame.columns[:half], frame.columns[half:], strict=True)
    )
    if half > 1:
        gaps = {f"{this} - healthy": frame[this] - frame[healthy] for healthy, this in panels}
        frame = frame.assign(**gaps)
        panels.append(tuple(gaps))
    with in_style():
        axes = frame.plot(subplots=panels, figsize=(7.0, 2.6 * len(panels)), title=exercise.title)
    path = exercise.file.with_suffix(".png")
    write_bytes(path, to_png(axes[0].figure))
    return path


def show_hint(exercise: Exercise) -> None:
    """Print the next hint, or the last one if there is no other."""
    hints = exercise.hints()
    count = min(hints_used(exercise) + 1, len(hints))
    _remember(exercise, "hints", count)
    print(f"hint {count} of {len(hints)}: {hints[count - 1].partition(chr(10))[2]}")


def text_of(outcome: Outcome) -> str:
    """A failed property with its counterexample, for the terminal and for the page of results."""
    lines = [f"  WRONG {outcome.name}", *(f"          {visible(line)}" for line in outcome.lines)]
    if outcome.suggestion:
        lines.append(f"        > {visible(outcome.suggestion)}")
    return "\n".join(lines)


def check(exercise: Exercise) -> None:
    """Grade the student's file. Raises CommandFailed unless all properties hold."""
    outcomes = grade(exercise)
    print(f"{exercise.name}: {exercise.title}")
    wrong = [outcome for outcome in outcomes if not outcome.holds]
    for outcome in outcomes:
        if outcome.holds:
            print(f"  ok    {outcome.name}")
        elif outcome is wrong[0] or outcome.name == SILENT:
            print(text_of(outcome))
        else:
            is_open = NotImplementedError.__name__ in outcome.lines
            print(f"  {'open ' if is_open else 'WRONG'} {outcome.name}")
    _remember(exercise, "passed", int(not wrong))
    if wrong:
        raise CommandFailed(
            f"{exercise.name}: {len(outcomes) - len(wrong)} of {len(outcomes)} properties hold; "
            f"tinylm exercise check {exercise.name} --hint gives a hint"
        )
    print(f"all {len(outcomes)} properties hold; `tinylm exercise show {exercise.name}` shows ours")


def check_all(course: dict[str, Exercise]) -> list[Path]:
    """Grade all files that exist and write the page of results; returns the page and the files.

    Raises InputError if there is none.
    """
    files = [exercise.file for exercise in course.values() if exercise.file.exists()]
    if not files:
        raise InputError(f"{WORK}: no exercise was started; tinylm exercise list shows all")
    rows = [
        "| exercise | result | properties | hints | SHA-256 of the file |",
        "|---|---|---|---|---|",
    ]
    counterexamples = []
    for name, exercise in course.items():
        if not exercise.file.exists():
            rows.append(f"| {name} | not started | | | |")
            continue
        outcomes = grade(exercise)
        wrong = [outcome for outcome in outcomes if not outcome.holds]
        result = "**not yet right**" if wrong else "passed"
        print(f"  {name:<12} {result.strip('*')}", flush=True)
        holding = f"{len(outcomes) - len(wrong)} of {len(outcomes)}"
        digest = sha256(exercise.file)[:12]
        rows.append(f"| {name} | {result} | {holding} | {hints_used(exercise)} | {digest} |")
        if wrong:
            counterexamples += ["", f"## {name}", "", "```text", text_of(wrong[0]), "```"]
    page = ["# Results of the exercises", "", *rows, *counterexamples, ""]
    write_bytes(PAGE, "\n".join(page).encode())
    return [PAGE, *files]


def use(exercise: Exercise) -> None:
    """Run the project with the student's file in a separate process.

    Raises InputError if it cannot be used, CommandFailed if it takes too long.
    """
    if not exercise.path("use.py").is_file():
        raise InputError(f"{exercise.name} is not part of a run; tinylm exercise check grades it")
    if not exercise.file.is_file():
        raise InputError(f"{exercise.file} is missing; tinylm exercise start {exercise.name}")
    try:
        done = run_apart("use", [exercise.folder, str(exercise.file)], USE_S)
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"{exercise.name}: ended after {USE_S:g} s") from None
    if done.returncode:
        raise CommandFailed(f"{exercise.name}: the run failed")


def show(exercise: Exercise) -> None:
    """Print the project's part behind the exercise's signature, then its source and place."""
    print(exercise.solution())
    for entry in exercise.project:
        path, first, text = source_of(entry)
        print(f"\n# {path}, line {first}\n{text}")


def source_of(entry: str) -> tuple[str, int, str]:
    """(path, first line, source) of `path name`: a function, a class, or a method Class.method.

    Raises AttributeError if the file has no such name.
    """
    path, name = entry.split()
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    lines, first = inspect.getsourcelines(operator.attrgetter(name)(module))
    return path, first, "".join(lines)
