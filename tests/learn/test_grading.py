"""The grader with files that go wrong in every way, and the command around it."""

import csv
import zipfile
from pathlib import Path

import pytest

from tinylm.base.config import parse_yaml
from tinylm.cli import main
from tinylm.learn.course import load_course
from tinylm.learn.grade import checks, grade

COURSE = load_course()
SOLUTIONS = Path(__file__).with_name("solutions.yaml").read_text("utf-8")
RIGHT = parse_yaml(SOLUTIONS, "solutions.yaml")["loss"]["right"]  # written without tinylm
LOSS = Path("exercises/loss.py")
HEAD = "import torch\n\n\ndef cross_entropy(logits, targets):\n"
BAD = {
    "an exits loop": ("    while True: pass", "line 5"),
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


def wrong_outcomes(source):
    """What does not hold for a loss.py with this code."""
    outcomes = grade(COURSE["loss"], {"loss.py": source.encode()})
    return [outcome for outcome in outcomes if not outcome.holds]


@pytest.mark.parametrize("case", BAD)
def test_what_goes_wrong_in_a_function_names_its_line(case):
    body, named = BAD[case]
    wrong = wrong_outcomes(HEAD + body)
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
def test_a_file_that_cannot_be_graded_is_named(source, named):
    wrong = wrong_outcomes(source)
    assert any(named in line for outcome in wrong for line in outcome.lines)


def progress(capsys, name):
    """What `tinylm exercise list` says of an exercise."""
    capsys.readouterr()
    assert main(["exercise", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if f"  {name}  " in line]
    return line.split("  ")[-1].strip()


def test_an_exercise_from_start_to_hand_in(desk, capsys):
    assert progress(capsys, "loss") == "not started"
    assert main(["exercise", "check", "loss"]) == 2
    assert main(["exercise", "start", "loss"]) == 0
    assert progress(capsys, "loss") == "not checked yet"
    assert main(["exercise", "check", "loss"]) == 1
    assert "WRONG" not in capsys.readouterr().out
    assert progress(capsys, "loss") == "not started"
    assert main(["exercise", "start", "loss"]) == 2
    assert main(["exercise", "check", "loss", "--hint", "3"]) == 0
    LOSS.write_text(HEAD + "    return logits.sum() * 0", "utf-8")
    assert main(["exercise", "check", "--all"]) == 0
    held, of, total = progress(capsys, "loss").removeprefix("in progress, ").split()[:3]
    assert (of, int(total)) == ("of", len(checks(COURSE["loss"].path("check.py"))))
    assert 0 <= int(held) < int(total)
    assert main(["handin", "me", "--exercises"]) == 0
    with zipfile.ZipFile("exports/me-exercises.zip") as archive:
        assert archive.namelist() == ["me-exercises/exercises/loss.py"]
        assert archive.read("me-exercises/exercises/loss.py") == LOSS.read_bytes()
    assert main(["exercise", "show", "loss"]) == 0
    assert "def token_loss" in capsys.readouterr().out
    LOSS.write_text(RIGHT, "utf-8")
    assert main(["exercise", "check", "loss"]) == 0
    assert main(["exercise", "start", "norm"]) == 0
    assert main(["exercise", "check", "norm"]) == 1
    assert progress(capsys, "loss") == "done"
    assert {path.name for path in desk.iterdir()} == {"exercises", "exports"}


def zipped(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return path


def grades():
    """{hand-in: its row} of the table."""
    with open("grades.csv", encoding="utf-8", newline="") as handle:
        return {row["hand-in"]: row for row in csv.DictReader(handle)}


def test_a_class_is_graded_whatever_single_hand_ins_are_like(desk, capsys):
    exits = "import os\nos._exit(3)"
    zipped("a.zip", [("a/exercises/loss.py", RIGHT), ("a/exercises/norm.py", exits)])
    zipped("b.zip", [("exercises/loss.py", COURSE["loss"].start()), ("exercises/own.py", "1")])
    Path("c.zip").write_bytes(Path("a.zip").read_bytes()[:400])
    damaged = bytearray(Path("a.zip").read_bytes())
    damaged[60:90] = bytes(30)  # of the compressed file
    Path("d.zip").write_bytes(damaged)
    zipped("e.zip", [("exercises/loss.py", bytes(50_000_000))])
    zipped("f.zip", [("x/../../exercises/notes.txt", b"")])
    zipped("g.zip", [("1/exercises/loss.py", RIGHT), ("2/exercises/loss.py", RIGHT)])
    names = [f"{name}.zip" for name in "abcdefgh"]
    assert main(["exercise", "grade", *names]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(names) + 1
    found = grades()
    assert list(found) == names
    assert found["a.zip"] | {"loss": "done", "done": "1"} == found["a.zip"]
    assert "code 3" in found["a.zip"]["problem"]
    assert found["a.zip"]["norm"].startswith("0 of ")
    assert found["b.zip"]["loss"] == "not started"
    assert found["b.zip"]["norm"] == "missing"
    for name in ("c.zip", "d.zip"):
        assert found[name]["problem"].startswith("damaged")
    for name in ("e.zip", "f.zip", "g.zip", "h.zip"):
        assert found[name]["done"] == "0"
        assert found[name]["problem"]
    assert {path.name for path in desk.iterdir()} == {"exercises", "grades.csv", *names[:-1]}
    zipped("later.zip", [("exercises/norm.py", COURSE["norm"].start())])
    assert main(["exercise", "grade", "later.zip"]) == 0
    assert grades()["a.zip"] == found["a.zip"]  # nobody handed in this exercise again


@pytest.mark.parametrize(
    "words", ["start", "check nothing", "jump", "check --all", "grade", "grade x/*.zip"]
)
def test_the_command_refuses_in_one_line(words, desk, capsys):
    assert main(["exercise", *words.split()]) == 2
    assert capsys.readouterr().err.count("\n") == 1
