"""Each exercise: the reference and an independent solution pass, planted bugs are caught with a counterexample."""

import contextlib
import json
import math
import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.drawn.drawing import settings_changes, with_changes
from tests.drawn.models import random_model
from tinylm.base import paths
from tinylm.base.command import CommandFailed
from tinylm.base.config import InputError, parse_yaml, read_section
from tinylm.learn import use
from tinylm.learn.course import Exercise, load_course
from tinylm.learn.desk import show
from tinylm.learn.grade import DONE, NOT_STARTED, READ, checks, status
from tinylm.learn.worker import judge, load
from tinylm.model import transformer
from tinylm.model.checkpoint import save_model
from tinylm.model.settings import ModelSettings
from tinylm.vocab.embedding.matrix_file import load_matrix, save_matrix

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


USED = [name for name, exercise in COURSE.items() if exercise.path("use.py").exists()]

FAR_FROM_DEFAULT = {
    "embedding.width": 9, "model.heads": 3, "model.head_width": 4, "model.positions": "rotary", "model.norm": "post",
    "model.norm_kind": "rms", "model.dropout": 0.1, "model.output_bias": True, "train.layout": "stream",
}  # fmt: skip


class Changed:
    """A student's file whose functions return something else."""

    def __init__(self, student):
        self.student = student

    def __getattr__(self, name):
        part = getattr(self.student, name)
        return part if isinstance(part, type) else lambda *values: changed(part(*values))


def changed(result):
    if isinstance(result, torch.Tensor):
        return 2 * result.roll(1)
    if isinstance(result, tuple):
        return tuple(map(changed, result))
    if isinstance(result, list):
        return result[1:]
    return result if isinstance(result, int) else result + 1  # another id may not exist


@pytest.mark.parametrize("name", USED)
def test_use_tells_right_parts_from_a_wrong_one(name, finished_run, tmp_path, monkeypatch):
    """Whatever params.yaml says, and whatever the model and the vectors are that the stages left."""
    shutil.copytree(finished_run / "data", tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    vocabulary = len(load_matrix(paths.EMBEDDING))
    plan = load(COURSE[name].path("use.py"), "plan")
    monkeypatch.setattr(use, "STARTS", use.STARTS[:1])
    monkeypatch.setattr(plan, "NEW", 3, raising=False)
    monkeypatch.setattr(plan, "PROMPTS", (1, 4), raising=False)  # the stories are short

    @settings(max_examples=2)
    @example(FAR_FROM_DEFAULT, 0)
    @given(settings_changes(("embedding", "model", "train")), st.integers(0, 99))
    def check(changes, number):
        params = with_changes(changes)
        assume(
            params["embedding"]["width"] > 2
        )  # of fewer columns, a layer norm leaves signs alone
        Path("params.yaml").write_text(json.dumps(params), "utf-8")
        shape = read_section(params, "model", ModelSettings)
        model = random_model(shape, vocabulary, params["embedding"]["width"], number)
        save_model(paths.MODELS, model)
        save_matrix(paths.EMBEDDING, model.embedding.detach().numpy())
        for code in dict.fromkeys([right(COURSE[name]), COURSE[name].solution()]):
            Path("mine.py").write_text(code, "utf-8")
            student = load("mine.py", "student")
            (ours, our_texts), (theirs, texts), calls = use.both_runs(plan, student, 2)
            assert use.verdict(ours, theirs, calls).startswith(
                ("identical", "equal up to rounding")
            )
            assert texts == our_texts
        with contextlib.suppress(InputError, CommandFailed):  # numbers that are not finite
            (ours, _), (theirs, _), calls = use.both_runs(plan, Changed(student), 2)
            assert use.verdict(ours, theirs, calls).startswith("different")

    check()


def test_use_says_so_if_a_part_is_not_used(finished_run, monkeypatch):
    monkeypatch.chdir(finished_run)
    plan = load(COURSE["positions"].path("use.py"), "plan")
    plan.run = lambda updates: use.train(updates, {"model": {"positions": "none"}})
    (ours, _), (theirs, _), calls = use.both_runs(plan, transformer, 1)
    assert use.verdict(ours, theirs, calls).startswith("not used")


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
    verdict = use.verdict(ours, pd.DataFrame({"loss": wrong}), 1)
    assert verdict.startswith("different: loss number 2")
    close = pd.DataFrame({"loss": [1.0, 2.0 + 1e-12]})
    assert use.verdict(ours, close, 1).startswith("equal up to rounding")


def test_a_project_part_that_show_names_exists(capsys):
    for exercise in COURSE.values():
        show(exercise)
        assert capsys.readouterr().out.count(", line ") == len(exercise.project)
