"""Each exercise: the reference and an independent solution pass, planted bugs are caught with a counterexample."""

import math
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinylm.base.config import parse_yaml
from tinylm.learn import use
from tinylm.learn.course import Exercise, load_course
from tinylm.learn.desk import show
from tinylm.learn.grade import DONE, NOT_STARTED, READ, checks, status
from tinylm.learn.worker import judge, load

COURSE = load_course()
PLANTED = parse_yaml(
    Path(__file__).with_name("solutions.yaml").read_text("utf-8"), "solutions.yaml"
)
WRONG = [(name, number) for name, given in PLANTED.items() for number in range(len(given["wrong"]))]


def graded(exercise: Exercise, code: str, folder: Path, *avoid: str):
    """The outcomes for a file with this code, in this process."""
    path = folder / "mine.py"
    path.write_text(code, "utf-8")
    check = load(exercise.path("check.py"), "check")
    return [judge(name, check, path, list(avoid)) for name in (READ, *checks(check.__file__))]


def passed(outcomes):
    return all(outcome.holds for outcome in outcomes)


def right(exercise: Exercise) -> str:
    return PLANTED[exercise.name].get("right") or exercise.solution()


@pytest.mark.parametrize("name", COURSE)
def test_the_reference_passes(name, tmp_path):
    outcomes = graded(COURSE[name], COURSE[name].solution(), tmp_path)
    assert passed(outcomes)
    assert status(COURSE[name], outcomes) == DONE


@pytest.mark.parametrize("name", [name for name in COURSE if "right" in PLANTED[name]])
def test_a_solution_written_without_the_reference_passes(name, tmp_path):
    exercise = COURSE[name]
    assert passed(graded(exercise, right(exercise), tmp_path, "tinylm", *exercise.avoid))


@pytest.mark.parametrize(("name", "number"), WRONG)
def test_a_planted_bug_is_caught_with_a_counterexample(name, number, tmp_path):
    old, new = PLANTED[name]["wrong"][number]
    code = right(COURSE[name])
    assert code.count(old) == 1
    wrong = [o for o in graded(COURSE[name], code.replace(old, new), tmp_path) if not o.holds]
    assert wrong
    assert wrong[0].lines
    assert wrong[0].suggestion


@pytest.mark.parametrize("name", COURSE)
def test_what_a_student_begins_with_is_not_right(name, tmp_path):
    exercise = COURSE[name]
    outcomes = graded(exercise, exercise.start(), tmp_path)
    assert outcomes[0].holds
    is_clinic = exercise.part == "diagnose"
    assert (status(exercise, outcomes) == NOT_STARTED) == (not is_clinic)
    assert not passed(outcomes)
    assert [len(exercise.texts()), bool(exercise.minutes)] == [4, True]
    assert {path.name for path in Path(exercise.folder).iterdir()} >= (
        {"fix.txt", "use.py", "run.csv", "samples.txt"} if is_clinic else {"reference.py"}
    )


USED = {
    name: exercise.solution()
    for name, exercise in COURSE.items()
    if exercise.path("use.py").exists()
}
RIGHT = right(COURSE["attention"])


@pytest.mark.parametrize(
    ("name", "code", "verdicts"),
    [
        *((name, code, ("identical", "equal up to rounding")) for name, code in USED.items()),
        ("attention", RIGHT, ("identical", "equal up to rounding")),
        ("attention", RIGHT.replace("math.sqrt(w)", "math.sqrt(d)"), "different"),
    ],
)
def test_use_tells_right_parts_from_a_wrong_one(
    name, code, verdicts, finished_run, tmp_path, monkeypatch
):
    monkeypatch.chdir(finished_run)
    path = tmp_path / "mine.py"
    path.write_text(code, "utf-8")
    plan = load(COURSE[name].path("use.py"), "plan")
    (ours, _), (theirs, _) = use.both_runs(plan, load(path, "student"), 2)
    assert use.verdict(ours, theirs).startswith(verdicts)


def test_an_exercise_is_trained_with_its_own_settings(finished_run, monkeypatch):
    """Its settings replace the defaults. The number of updates and of validations shows this."""
    monkeypatch.chdir(finished_run)

    @settings(max_examples=12)
    @given(
        changes=st.fixed_dictionaries(
            {}, optional={"tokens": st.just(1), "validate_every": st.integers(1, 4)}
        ),
        updates=st.integers(1, 6),
    )
    def check(changes, updates):
        steps, _ = use.train(updates, {"train": changes})
        assert len(steps) == (1 if "tokens" in changes else updates)
        every = changes.get("validate_every", 10)
        validated = [
            number for number, loss in enumerate(steps["held_out"]) if not math.isnan(loss)
        ]
        assert validated == list(range(0, len(steps), every))

    check()


@pytest.mark.parametrize("wrong", [[1.0], [1.0, math.nan], [1.0, 2.1]])
def test_a_missing_number_counts_as_different(wrong):
    ours = pd.DataFrame({"loss": [1.0, 2.0]})
    assert use.verdict(ours, pd.DataFrame({"loss": wrong})).startswith("different: loss number 2")
    close = pd.DataFrame({"loss": [1.0, 2.0 + 1e-12]})
    assert use.verdict(ours, close).startswith("equal up to rounding")


def test_a_project_part_that_show_names_exists(capsys):
    for exercise in COURSE.values():
        show(exercise)
        assert capsys.readouterr().out.count(", line ") == len(exercise.project)
