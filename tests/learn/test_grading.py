"""The grader with files that go wrong in every way, and the command around it."""

import zipfile
from pathlib import Path

import pytest

from tinylm.cli import main
from tinylm.learn.course import load_course
from tinylm.learn.grade import grade

COURSE = load_course()
HEAD = "import torch\n\n\ndef cross_entropy(logits, targets):\n"
BAD = {
    "an endless loop": ("    while True: pass", "line 5"),
    "a loop that catches everything": ("    while True:\n        try:\n            1\n        except:\n            2", "s: "),
    "an error of its own": ("    return logits.sam()", "line 5"),
    "another type": ("    return logits.float().logsumexp(1)[0] - 0", "dtype"),
    "a changed input": ("    logits -= 1\n    return logits.new_zeros(())", "logits"),
    "nothing returned": ("    logits + 1", "None"),
    "an exit": ("    raise SystemExit", "line 5"),
    "a hard exit": ("    import os\n    os._exit(3)", "code 3"),
    "a question": ("    input()", "EOFError"),
    "recursion": ("    return cross_entropy(logits, targets)", "RecursionError"),
}  # fmt: skip


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("exercises").mkdir()
    return tmp_path


@pytest.mark.parametrize("case", BAD)
def test_what_goes_wrong_in_a_function_names_its_line(case, desk, monkeypatch):
    if case == "a loop that catches everything":
        monkeypatch.setattr("tinylm.learn.grade.WHOLE_S", 12.0)
    body, named = BAD[case]
    Path("exercises/loss.py").write_text(HEAD + body, "utf-8")
    wrong = [outcome for outcome in grade(COURSE["loss"]) if not outcome.holds]
    text = "\n".join([*wrong[0].lines, wrong[0].suggestion])
    assert named in text
    assert "worker.py" not in text
    assert "check.py" not in text


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("import nowhere", "nowhere"),
        ("def f(:", "line 1"),
        ("from torch.nn.functional import cross_entropy", "cross_entropy"),
        ("import tinylm.model.ops", "tinylm"),
        ("other = 1", "cross_entropy"),
    ],
)
def test_a_file_that_cannot_be_graded_is_named(source, named, desk):
    Path("exercises/loss.py").write_text(source, "utf-8")
    wrong = [outcome for outcome in grade(COURSE["loss"]) if not outcome.holds]
    assert any(named in line for outcome in wrong for line in outcome.lines)


def test_an_exercise_from_start_to_hand_in(desk, capsys):
    assert main(["exercise"]) == 0
    assert main(["exercise", "check", "loss"]) == 2
    assert main(["exercise", "start", "loss"]) == 0
    file = Path("exercises/loss.py")
    assert main(["exercise", "check", "loss"]) == 1
    assert main(["exercise", "start", "loss"]) == 2
    assert main(["exercise", "check", "loss", "--hint", "3"]) == 0
    file.write_text(HEAD + "    return logits.sum() * 0", "utf-8")
    assert main(["exercise", "check", "--all"]) == 0
    page = Path("exercises/results.md").read_text("utf-8")
    assert "| loss | not yet right |" in page
    assert main(["handin", "me", "--exercises"]) == 0
    with zipfile.ZipFile("exports/me.zip") as archive:
        assert archive.read("me/exercises/loss.py") == file.read_bytes()
        assert "me/exercises/results.md" in archive.namelist()
    assert main(["exercise", "show", "loss"]) == 0
    assert "def token_loss" in capsys.readouterr().out
    assert {path.name for path in desk.iterdir()} == {"exercises", "exports"}


@pytest.mark.parametrize(
    "words",
    [
        ["start"],
        ["check", "nothing"],
        ["jump"],
        ["check", "--all"],
    ],
)
def test_the_command_refuses_in_one_line(words, desk, capsys):
    assert main(["exercise", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1
