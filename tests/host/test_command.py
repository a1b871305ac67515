"""Exit codes, signals, and one line per error."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from tinylm.base.config import InputError
from tinylm.host.command import CommandFailed, Parser, guard, signals_noted


def raising(error):
    def main():
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code", "key"),
    [
        (InputError("a\nb"), 2, "error: a\nerror: b\n"),
        (InputError("a\x1b[2J"), 2, "U+001B"),
        (CommandFailed("loss is no number"), 1, "loss is no number"),
        (OSError(errno.ENOSPC, "No space", "x.bin"), 1, "x.bin"),
        (MemoryError(), 1, "out of memory"),
        (RuntimeError("could not create a primitive"), 1, "out of memory"),
        (RuntimeError("could not create a primitive descriptor"), 1, "RuntimeError"),
        (PermissionError(errno.EACCES, "Permission denied", "runs/a"), 1, "runs/a"),
        (ValueError("\n  first\nsecond"), 1, "ValueError: first second"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_each_error_is_one_line_and_its_exit_code(capsys, monkeypatch, error, code, key):
    monkeypatch.delenv("TINYLM_DEBUG", raising=False)
    assert guard(raising(error)) == code
    shown = capsys.readouterr().err
    assert key in shown
    assert "Traceback" not in shown
    assert len(shown.splitlines()) == str(error).strip().count("\n") + 1 or code == 1


def test_a_wrong_option_is_bad_input_that_names_the_command():
    parser = Parser(prog="tinylm lab")
    with pytest.raises(InputError, match=r"tinylm lab.*--nonsense"):
        parser.parse_args(["--nonsense"])


SLEEPING = """
import signal, sys, time
from tinylm.host.command import guard
signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where a shell started the tests with &
def main():
    print("up", flush=True)
    time.sleep(60)
sys.exit(guard(main))"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_end_with_their_exit_code(number, code):
    process = subprocess.Popen([sys.executable, "-c", SLEEPING], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    process.send_signal(number)
    assert process.wait(20) == code


def test_a_noted_signal_lets_the_block_finish_and_the_next_one_does_not(monkeypatch):
    monkeypatch.setattr("tinylm.host.command._SAME_KEY_PRESS_S", 0.0)
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(InterruptedError))
    try:
        with pytest.raises(InterruptedError), signals_noted() as received:  # noqa: PT012
            os.kill(os.getpid(), signal.SIGTERM)
            assert received == [signal.SIGTERM]
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


PRINTING = """
import sys
from tinylm.host.command import guard
def main():
    for number in range(99999):
        print("line", number)
sys.exit(guard(main, prints=sys.argv[1] == "prints"))"""


@pytest.mark.parametrize(
    ("kind", "output", "code"),
    [("prints", "| true", 0), ("works", "| true", 1), ("prints", "> /dev/full", 1)],
)
def test_a_closed_or_full_output_is_no_traceback(kind, output, code):
    line = f"set -o pipefail; {sys.executable} -c '{PRINTING}' {kind} {output}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
