"""Whatever else a student's file does, the grade is the same: output, exits, forks, global state, imports, encodings."""

import json
import tempfile
import unicodedata
import zipfile
from collections import Counter, namedtuple
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.learn.test_grading import COURSE, SOLUTIONS, grades, zipped
from tinylm.base.config import InputError, parse_yaml
from tinylm.cli import main
from tinylm.learn import apart, classroom, use
from tinylm.learn.expect import as_short_text, difference
from tinylm.learn.folder import LARGEST, misnamed, own_files, read_zip, write_files
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
    check = load(COURSE[name].path("check.py"), "the checks")
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


@settings(max_examples=12, database=None)
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
    files = {"loss.py": b"from helper import mine"}
    files["helper.py"] = b"from torch.nn.functional import cross_entropy as mine"
    outcome, *_ = outcomes_of("loss", files)
    assert outcome.lines[0] == "helper.py, line 1 uses cross_entropy"


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
    assert as_short_text(pair) == "(1.0, [2.0])"
    assert difference(Counter(a=1), {"a": 1}) == ""


def test_the_folder_is_handed_in_and_graded_whole(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_files(ONLY_HELPER | {"block.csv": b"", "data.csv": b"1"}, Path("exercises"))
    write_files({".state.json": b"{}", "__pycache__/block.pyc": b""}, Path("exercises"))
    assert main(["exercise", "check", "block"]) == 0
    assert main(["handin", "me", "--exercises"]) == 0
    files = {*ONLY_HELPER, "data.csv"}
    with zipfile.ZipFile("exports/me-exercises.zip") as archive:
        assert set(archive.namelist()) == {f"me-exercises/exercises/{name}" for name in files}
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    assert set(read_zip(Path("exports/me-exercises.zip"), COURSE)) == files
    windows = [(name.replace("/", "\\"), content) for name, content in members]
    zipped("=1+1.zip", windows)
    zipped("two.zip", [*members, ("other/exercises/loss.py", LOSS)])
    blocked = zipped("blocked.zip", [*members, ("me-exercises/exercises/parts", b"")])
    assert main(["exercise", "grade", "=1+1.zip", "two.zip", str(blocked)]) == 0
    found = grades()
    assert list(found) == ["'=1+1.zip", "two.zip", str(blocked)]
    assert found["'=1+1.zip"] == {"hand-in": "'=1+1.zip", "block": DONE, "done": "1", "problem": ""}
    assert "2 folders" in found["two.zip"]["problem"]
    assert "cannot be written" in found[str(blocked)]["problem"]
    write_files({"large.bin": bytes(LARGEST + 1)}, Path("exercises"))
    with pytest.raises(InputError, match=r"large\.bin"):
        own_files(COURSE)


def test_an_unwritten_operation_of_torch_is_not_an_unwritten_function():
    code = LOSS.replace(HEAD, f"{HEAD}    targets.softmax(-1)\n")  # raises NotImplementedError
    assert result("loss", {"loss.py": code.encode()}) == "0 of 6"


@pytest.mark.parametrize("helper", ["check", "random", "stable_parts"])
def test_a_helper_may_have_any_name_but_pythons(helper):
    files = {
        "loss.py": f"from exercises.{helper} import f\n{LOSS}".encode(),
        f"{helper}.py": b"f = 1",
    }
    assert result("loss", files) == DONE
    if helper == "check":
        files["loss.py"] = f"from check import f\n{LOSS}".encode()
        assert result("loss", files) == DONE


def test_names_of_a_zip_are_those_that_an_import_finds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = f"from gr\u00f6\u00dfe import f\n{LOSS}"
    for form in ("NFC", "NFD"):
        name = unicodedata.normalize(form, "me/exercises/gr\u00f6\u00dfe.py")
        path = Path(zipped("a.zip", [("me/exercises/loss.py", code), (name, "f = 1")]))
        marked = path.read_bytes()
        unmarked = marked.replace(b"\x14\x00\x00\x08", b"\x14\x00\x00\x00")
        assert unmarked != marked
        for content in (marked, unmarked):
            path.write_bytes(content)
            assert result("loss", read_zip(path, COURSE)) == DONE


def interrupted(files, course):
    raise KeyboardInterrupt


@given(
    st.sampled_from(sorted(COURSE)),
    st.sampled_from(["", " (1)", "_2", " copy", "-final", "v2"]),
    st.booleans(),
)
def test_a_renamed_exercise_is_hinted(name, suffix, is_capital):
    file = f"{name.title() if is_capital else name}{suffix}.py"
    hint = [] if file == f"{name}.py" else [f"{file} is not graded; expected {name}.py"]
    assert [line for line in misnamed([file], COURSE) if line.endswith(f" {name}.py")] == hint
    assert misnamed([file, f"{name}.py"], {name}) == []
    assert misnamed(["1" * 60 + "_loss.py"], COURSE) == []


def test_copies_and_names_beside_the_right_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    loss = ("me/exercises/loss.py", LOSS)
    zipped("copy.zip", [loss, ("me/exercises/exercises/loss.py", "")])
    zipped("named.zip", [loss, ("me/exercises/Norm.py", ""), ("me/exercises/block (1).py", "")])
    assert main(["exercise", "grade", "copy.zip"]) == 0
    assert main(["exercise", "grade", "named.zip"]) == 0
    assert "rows kept from earlier grading: 1" in capsys.readouterr().out
    assert [row["loss"] for row in grades().values()] == [DONE, DONE]
    assert grades()["named.zip"]["problem"] == (
        "Norm.py is not graded; expected norm.py; block (1).py is not graded; expected block.py"
    )
    table = Path("grades.csv")
    table.write_text(table.read_text("utf-8").replace("copy.zip", "./copy.zip"), "utf-8")
    Path("link").symlink_to(tmp_path)
    for spelled in ("copy.zip", "./copy.zip", "link/copy.zip", str(tmp_path / "copy.zip")):
        assert main(["exercise", "grade", "copy.zip", spelled]) == 0
        assert list(grades()) == ["copy.zip", "named.zip"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classroom, "grade_files", interrupted)
        assert main(["exercise", "grade", "copy.zip", "named.zip"]) != 0
    assert [row["loss"] for row in grades().values()] == [DONE, DONE]
    table.write_text("name,points\nAda,3\n")
    assert main(["exercise", "grade", "copy.zip"]) == 2


def test_use_is_limited_by_processor_time(tmp_path, monkeypatch, capsys):
    """The run of an exercise that computes for too long names the student's line."""
    file = tmp_path / "exercises" / "attention.py"
    write_files({"attention.py": b"while True: pass"}, file.parent)
    monkeypatch.setattr(use, "MOST_S", 0.2)
    monkeypatch.setattr("sys.argv", ["use", str(COURSE["attention"].folder), str(file)])
    monkeypatch.setattr(apart, "_lower", lambda *_: None)  # of this process
    with pytest.raises(use.CommandFailed, match=r"0\.2 s of processor time: .*line 1"):
        use.main()
