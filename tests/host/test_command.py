import errno
import os
import signal
import subprocess
import sys

import pytest

from tinylm.base.config import InputError
from tinylm.host import command
from tinylm.host.command import CommandFailed, guard


def raising(error):
    def main():
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("a\nb"), 2, "error: a\nerror: b\n"),
        (CommandFailed("loss is no number"), 1, "error: loss is no number\n"),
        (
            OSError(errno.ENOSPC, "No space", "x.bin"),
            1,
            "error: no space left on the disk for x.bin (No space)",
        ),
        (MemoryError(), 1, "error: out of memory"),
        (RuntimeError("could not create a primitive"), 1, "error: out of memory"),
        (
            RuntimeError("could not create a primitive descriptor for a matmul"),
            1,
            "error: RuntimeError: could not",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "runs/a"),
            1,
            "error: runs/a: Permission denied\n",
        ),
        (ZeroDivisionError("division by zero"), 1, "error: ZeroDivisionError: division by zero"),
        (
            ValueError("\n  first\nsecond"),
            1,
            "error: ValueError: first second (TINYLM_DEBUG=1 shows where)\n",
        ),
        (ValueError(), 1, "error: ValueError: no message (TINYLM"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_each_error_is_one_line_and_its_exit_code(capsys, monkeypatch, error, code, line):
    monkeypatch.delenv("TINYLM_DEBUG", raising=False)
    assert guard(raising(error)) == code
    shown = capsys.readouterr().err
    assert shown.startswith(line)
    assert "Traceback" not in shown


def test_ctrl_c_within_an_import_that_fails_of_it_is_an_interruption(capsys):
    def main():
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise RuntimeError("module compiled against another version")  # noqa: B904 (as numpy's C code does it)

    assert guard(main) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_done_is_zero():
    assert guard(lambda: None) == 0


def test_debug_shows_the_traceback(capsys, monkeypatch):
    monkeypatch.setenv("TINYLM_DEBUG", "1")
    assert guard(raising(InputError("x"))) == 2
    assert "Traceback" in capsys.readouterr().err


def test_sigterm_ends_with_143():
    code = (
        "import sys, time\nfrom tinylm.host.command import guard\n"
        "def main():\n    print('up', flush=True)\n    time.sleep(60)\nsys.exit(guard(main))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ}
    )
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 143


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_within_a_destructor_interrupts_all_the_same(number, code):
    """Python can raise nothing there: it would print a traceback and go on."""
    script = f"""
import os, signal, sys, time
from tinylm.host.command import guard
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started the tests with &
class Closing:
    def __del__(self):
        os.kill(os.getpid(), signal.{number})
        time.sleep(0)
def main():
    Closing()
    time.sleep(30)
sys.exit(guard(main))"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=20
    )
    assert done.returncode == code
    assert done.stderr in ("interrupted\n", "terminated\n")


PRINTING = """\
import sys
from pathlib import Path
from tinylm.host.command import CommandFailed, guard
def main():
    for number in range(99999):
        print("line", number)
    Path("done").write_text("all of it")
    if sys.argv[2] == "fails":
        raise CommandFailed("it went wrong")
sys.exit(guard(main, prints=sys.argv[1] == "prints"))
"""


@pytest.mark.parametrize(
    ("kind", "output", "code", "done"),
    [
        ("works", "| true", 0, True),
        ("works", ">&-", 0, True),
        ("works", ">/dev/full", 0, True),
        ("fails", "| true", 1, True),
        ("fails", ">&-", 1, True),
        ("prints", "| true", 0, False),  # it stops where nobody reads
        ("prints", ">/dev/full", 1, False),
        ("prints fails", "| cat", 1, True),
    ],
)
def test_the_exit_code_says_whether_the_work_was_done(tmp_path, kind, output, code, done):
    purpose, end = ("prints" if "prints" in kind else "works"), ("fails" if "fails" in kind else "")
    line = f"set -o pipefail; {sys.executable} -c '{PRINTING}' {purpose} '{end}' {output}"
    found = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode == code, found.stderr
    assert (tmp_path / "done").exists() == done
    assert "Traceback" not in found.stderr
    assert ("error: it went wrong" in found.stderr) == (end == "fails" and done)
    assert ("No space left on device" in found.stderr) == (output == ">/dev/full")


def test_a_broken_pipe_that_is_not_standard_output_is_a_failure(capsys):
    assert guard(raising(BrokenPipeError(errno.EPIPE, "Broken pipe", "the hub")), prints=True) == 1
    assert capsys.readouterr().err == "error: the hub: Broken pipe\n"


def test_an_interpreter_that_drops_documentation_strings_is_refused():
    code = (
        "import sys\nfrom tinylm.host.command import guard\nsys.exit(guard(lambda: print('ran')))"
    )
    for level, expected in (("-O", (0, "ran\n")), ("-OO", (2, ""))):
        done = subprocess.run([sys.executable, level, "-c", code], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == expected, done.stderr
    assert done.stderr.startswith(
        "error: PYTHONOPTIMIZE=2 (python -OO) drops strings that libraries need"
    )


def test_a_python_without_the_packages_is_named_with_what_to_type(monkeypatch, capsys):
    def main() -> None:
        raise ModuleNotFoundError("No module named 'torch'")

    monkeypatch.setattr(
        command, "wrong_python", lambda: "this python lacks torch; type source .venv/bin/activate"
    )
    assert command.guard(main) == 2
    assert (
        capsys.readouterr().err
        == "error: this python lacks torch; type source .venv/bin/activate\n"
    )
    monkeypatch.setattr(command, "wrong_python", lambda: "")
    assert command.guard(main) == 1
    assert "ModuleNotFoundError: No module named 'torch'" in capsys.readouterr().err
