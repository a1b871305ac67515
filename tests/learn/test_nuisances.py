"""Whatever else a student's file does, the grade is the same: output, exits, forks, global state, imports, encodings."""

import json
import tempfile
import zipfile
from collections import Counter, namedtuple
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.learn.test_grading import COURSE, SOLUTIONS, grades, zipped
from tinylm.base.config import InputError, parse_yaml
from tinylm.cli import main
from tinylm.learn import apart, use
from tinylm.learn.expect import difference, shown
from tinylm.learn.folder import LARGEST, own_files, read_zip, write_files
from tinylm.learn.grade import DONE, END, READ, checks, grade, status
from tinylm.learn.worker import judge_apart, load

RIGHT = parse_yaml(SOLUTIONS, "solutions.yaml")
LOSS = RIGHT["loss"]["right"]
HEAD = "def cross_entropy(logits, targets):\n"
CHECK = COURSE["loss"].path("check.py")
FORGED = [json.dumps([name, True, [], ""]) for name in (READ, *checks(CHECK))]
ANYWHERE = {
    "a log": 'import sys; print(["it\'s a cat"], file=sys.__stdout__, flush=True)',
    "no end of line": "import sys; print('shape', end=' ', file=sys.__stdout__, flush=True)",
    "outcomes": f"import sys; print(*{[*FORGED, END]}, sep='\\n', file=sys.__stdout__, flush=True)",
    "a descriptor": "import os; [os.write(number, b'end\\n') for number in (1, 2)]",
    "output at exit": "import atexit; atexit.register(print, 'bye')",
    "an exit at exit": "import atexit, os; atexit.register(os._exit, 3)",
    "a fork": "import os; os.fork()",
    "a fork that exits": "import os, sys; os.fork() or sys.exit(3)",
    "no streams": "import sys; sys.stdout = sys.stderr = None",
    "another folder": "import os; os.chdir('/')",
    "no environment": "import os; os.environ.clear()",
    "errors": "import warnings; warnings.simplefilter('error')",
    "a thread": "import threading, time; threading.Thread(target=time.sleep, args=(99,)).start()",
    "a process": "import subprocess; subprocess.Popen(['sleep', '99'])",
    "another type": "import torch; torch.set_default_dtype(torch.float16)",
    "random numbers": "import random, torch; random.seed(3); torch.manual_seed(3)",
    "no limit": "import signal; signal.signal(signal.SIGPROF, signal.SIG_IGN)",
    "much output": "print('x' * 100_000)",
}
AFTERWARDS = ANYWHERE | {  # before the function's answer is computed they would change it
    "no gradients": "import torch; torch.set_grad_enabled(False)",
    "another device": "import torch; torch.set_default_device('meta')",
    "another function": "import builtins, torch; builtins.sum = torch.Tensor.exp = None",
}


def outcomes_of(name, files):
    """The outcomes for a folder with these files, each in a copy of this process."""
    check = load(COURSE[name].path("check.py"), "check")
    with tempfile.TemporaryDirectory() as folder:
        write_files(files, Path(folder) / "exercises")
        file = Path(folder).resolve() / "exercises" / f"{name}.py"
        avoid = ["tinylm", *COURSE[name].avoid]
        return [
            judge_apart(part, check, file, avoid)[0] for part in (READ, *checks(check.__file__))
        ]


def result(name, files):
    return status(COURSE[name], outcomes_of(name, files))


def some(names):
    return st.lists(st.sampled_from(sorted(names)), max_size=3)


ENDING = """
_own = cross_entropy
def cross_entropy(*given):
    try:
        return _own(*given)
    finally:
        {}
"""


@settings(max_examples=12, deadline=None, database=None)
@given(some(AFTERWARDS), some(ANYWHERE), some(AFTERWARDS), some(AFTERWARDS))
def test_no_nuisance_changes_the_grade(before, first, last, after):
    body = "".join(f"    {ANYWHERE[name]}\n" for name in first)
    ending = "\n        ".join(["pass", *map(AFTERWARDS.get, last)])
    code = LOSS.replace(HEAD, HEAD + body) + ENDING.format(ending)
    code = "\n".join([*map(AFTERWARDS.get, before), code, *map(AFTERWARDS.get, after)])
    outcomes = outcomes_of("loss", {"loss.py": code.encode()})
    assert status(COURSE["loss"], outcomes) == DONE, outcomes


def test_output_is_never_taken_for_an_outcome():
    every = "\n".join(AFTERWARDS.values())
    ending = ENDING.format("\n        ".join(AFTERWARDS.values()))
    for code, expected in ((LOSS, DONE), (f"{HEAD}    return logits.sum()", "0 of 6")):
        files = {"loss.py": f"{every}\n{code}\n{ending}\n{every}".encode()}
        assert status(COURSE["loss"], grade(COURSE["loss"], files)) == expected


def test_code_that_waits_is_ended(monkeypatch):
    monkeypatch.setattr(apart, "IDLE_S", 1.0)
    outcome, *_ = outcomes_of("loss", {"loss.py": b"import time\ntime.sleep(999)"})
    assert not outcome.holds
    assert "1 s without computing" in outcome.lines[0]


ATTENTION = RIGHT["attention"]["right"]
BLOCK = RIGHT["block"]["right"]
ONLY_HELPER = {
    "block.py": b"from exercises.parts.mine import block",
    "parts/mine.py": BLOCK.encode(),
}


@pytest.mark.parametrize("how", ["exercises.attention", "attention", ".attention"])
def test_neighbours_are_the_students_own(how, tmp_path, monkeypatch):
    block = f"from {how} import attention\n{BLOCK}".encode()
    monkeypatch.chdir(tmp_path)
    write_files({"attention.py": ATTENTION.encode()}, Path("exercises"))  # the teacher's
    files = {"block.py": block, "attention.py": ATTENTION.encode()}
    assert result("block", files) == DONE
    if how != "exercises.attention":
        return
    outcomes = grade(COURSE["block"], {"block.py": block})
    assert "No module named 'exercises.attention'" in outcomes[0].lines[-1]


def test_a_neighbour_may_not_use_what_the_exercise_forbids():
    files = {"loss.py": b"from helper import cross_entropy"}
    files["helper.py"] = b"from torch.nn.functional import cross_entropy as f\ncross_entropy = f"
    outcome, *_ = outcomes_of("loss", files)
    assert "uses cross_entropy" in outcome.lines[0]


@pytest.mark.parametrize(
    "code",
    [
        b"\xef\xbb\xbf" + LOSS.encode(),
        b"# coding: latin-1\n# \xe9\n" + LOSS.encode(),
        LOSS.replace("\n", "\r\n").encode(),
        LOSS.replace("\n", "\r").encode(),
    ],
)
def test_files_are_read_as_python_reads_them(code):
    assert result("loss", {"loss.py": code}) == DONE


def test_answers_may_have_names():
    pair = namedtuple("pair", "p m")(1.0, [2.0])
    assert difference(pair, (1.0, [2.0])) == ""
    assert difference(pair, (1.0, [3.0])) != ""
    assert difference((1.0, [2.0]), [1.0, [2.0]]) != ""
    assert shown(pair) == "(1.0, [2.0])"
    assert difference(Counter(a=1), {"a": 1}) == ""


def test_the_folder_is_handed_in_and_graded_whole(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_files(ONLY_HELPER | {"block.csv": b"", "data.csv": b"1"}, Path("exercises"))
    write_files({".state.json": b"{}", "__pycache__/block.pyc": b""}, Path("exercises"))
    assert main(["exercise", "check", "block"]) == 0
    assert main(["handin", "me", "--exercises"]) == 0
    files = {*ONLY_HELPER, "data.csv"}
    with zipfile.ZipFile("exports/me.zip") as archive:
        assert set(archive.namelist()) == {f"me/exercises/{name}" for name in files}
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    assert set(read_zip(Path("exports/me.zip"), COURSE)) == files
    windows = [(name.replace("/", "\\"), content) for name, content in members]
    zipped("=1+1.zip", windows)
    zipped("two.zip", [*members, ("other/exercises/loss.py", LOSS)])
    blocked = zipped("blocked.zip", [*members, ("me/exercises/parts", b"")])
    assert main(["exercise", "grade", "=1+1.zip", "two.zip", str(blocked)]) == 0
    found = grades()
    assert list(found) == ["'=1+1.zip", "two.zip", str(blocked)]
    assert found["'=1+1.zip"] == {"hand-in": "'=1+1.zip", "block": DONE, "done": "1", "problem": ""}
    assert "2 folders" in found["two.zip"]["problem"]
    assert "cannot be written" in found[str(blocked)]["problem"]
    write_files({"large.bin": bytes(LARGEST + 1)}, Path("exercises"))
    with pytest.raises(InputError, match=r"large\.bin"):
        own_files()


def test_use_is_limited_by_processor_time(tmp_path, monkeypatch, capsys):
    """The run of an exercise that computes for too long names the student's line."""
    file = tmp_path / "exercises" / "attention.py"
    write_files({"attention.py": b"while True: pass"}, file.parent)
    monkeypatch.setattr(use, "MOST_S", 0.2)
    monkeypatch.setattr("sys.argv", ["use", str(COURSE["attention"].folder), str(file)])
    monkeypatch.setattr(apart, "_lower", lambda *_: None)  # of this process
    with pytest.raises(use.CommandFailed, match=r"0\.2 s of processor time: .*line 1"):
        use.main()
