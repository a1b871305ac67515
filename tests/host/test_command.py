import errno
import os
import signal
import subprocess
import sys

import pytest

from tinylm.base.config import InputError
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
        (OSError(errno.ENOSPC, "No space", "x.bin"), 1, "error: no space left on the disk for x.bin (No space)"),
        (MemoryError(), 1, "error: out of memory"),
        (RuntimeError("could not create a primitive"), 1, "error: out of memory"),
        (RuntimeError("could not create a primitive descriptor for a matmul"), 1, "error: RuntimeError: could not"),
        (PermissionError(errno.EACCES, "Permission denied", "runs/a"), 1, "error: runs/a: Permission denied\n"),
        (ZeroDivisionError("division by zero"), 1, "error: ZeroDivisionError: division by zero"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_each_error_is_one_line_and_its_exit_code(capsys, monkeypatch, error, code, line):
    monkeypatch.delenv("TINYLM_DEBUG", raising=False)
    assert guard(raising(error)) == code
    shown = capsys.readouterr().err
    assert shown.startswith(line)
    assert "Traceback" not in shown


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
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ})
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 143
