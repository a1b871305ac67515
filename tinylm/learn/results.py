"""The page of results that a teacher collects: exercises/results.md, made from fresh gradings."""

from pathlib import Path

from tinylm.base.config import InputError
from tinylm.base.files import sha256, write_bytes
from tinylm.learn.course import WORK, Exercise
from tinylm.learn.desk import hints_used, lines_of
from tinylm.learn.grade import Outcome, grade, passed

PAGE = WORK / "results.md"


def write_page(course: dict[str, Exercise]) -> Path:
    """Grade all files that exist and write the page. Raises InputError if there is none."""
    started = [exercise for exercise in course.values() if exercise.file.exists()]
    if not started:
        raise InputError(f"{WORK}: no exercise was started; tinylm exercise list shows all")
    graded = {}
    for exercise in started:
        graded[exercise.name] = grade(exercise, exercise.file)
        result = "passed" if passed(graded[exercise.name]) else "not yet right"
        print(f"  {exercise.name:<12} {result}", flush=True)
    rows = [_row(exercise, graded.get(exercise.name)) for exercise in course.values()]
    count = sum(map(passed, graded.values()))
    lines = [
        "# Results of the exercises",
        "",
        f"{count} of {len(course)} passed. `tinylm exercise check --all` wrote this page.",
        "",
        "| exercise | part | result | properties | hints | SHA-256 of the file |",
        "|---|---|---|---|---|---|",
        *rows,
    ]
    for name, outcomes in graded.items():
        wrong = [outcome for outcome in outcomes if not outcome.holds]
        if wrong:
            lines += ["", f"## {name}", "", "```text", *lines_of(wrong[0]), "```"]
    write_bytes(PAGE, ("\n".join(lines) + "\n").encode())
    return PAGE


def _row(exercise: Exercise, outcomes: list[Outcome] | None) -> str:
    if outcomes is None:
        return f"| {exercise.name} | {exercise.part} | not started | | | |"
    result = "passed" if passed(outcomes) else "**not yet right**"
    holding = f"{sum(outcome.holds for outcome in outcomes)} of {len(outcomes)}"
    digest = sha256(exercise.file)[:12]
    cells = (exercise.name, exercise.part, result, holding, str(hints_used(exercise)), digest)
    return f"| {' | '.join(cells)} |"


def files_to_hand_in(course: dict[str, Exercise]) -> dict[str, Path]:
    """{name in the zip: file}: the page of results, written anew, and the student's files."""
    page = write_page(course)
    started = [exercise.file for exercise in course.values() if exercise.file.exists()]
    return {path.as_posix(): path for path in (page, *started)}
