"""Exit codes, signals, one line per error; device, what is printed, and locks that name their holder."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tinylm.base.command import CommandFailed, Parser, run_command, signals_noted
from tinylm.base.config import InputError
from tinylm.base.machine import pick_device
from tinylm.base.printable import visible
from tinylm.base.processes import exclusive_lock


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
    assert run_command(raising(error)) == code
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
from tinylm.base.command import run_command
signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where a shell started the tests with &
def main():
    print("up", flush=True)
    for _ in range(600):  # one long sleep would miss a signal that comes just before it
        time.sleep(0.1)
sys.exit(run_command(main))"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_end_with_their_exit_code(number, code):
    process = subprocess.Popen([sys.executable, "-c", SLEEPING], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    process.send_signal(number)
    assert process.wait(60) == code


def test_a_noted_signal_lets_the_block_finish_and_the_next_one_does_not(monkeypatch):
    monkeypatch.setattr("tinylm.base.command._SAME_KEY_PRESS_S", 0.0)
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(InterruptedError))
    try:
        with pytest.raises(InterruptedError), signals_noted() as received:  # noqa: PT012
            os.kill(os.getpid(), signal.SIGTERM)
            assert received == [signal.SIGTERM]
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_that_the_block_did_not_act_on_takes_effect_after_it():
    """One may arrive after the block has looked for the last time."""
    with pytest.raises(KeyboardInterrupt), signals_noted():
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(ValueError, match="acted"), signals_noted() as received:  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        raise ValueError(f"acted on {received}")


PRINTING = """
import sys
from tinylm.base.command import run_command
def main():
    for number in range(99999):
        print("line", number)
sys.exit(run_command(main, prints=sys.argv[1] == "prints"))"""


@pytest.mark.parametrize(
    ("kind", "output", "code"),
    [("prints", "| true", 0), ("works", "| true", 1), ("prints", "> /dev/full", 1)],
)
def test_a_closed_or_full_output_is_no_traceback(kind, output, code):
    line = f"set -o pipefail; {sys.executable} -c '{PRINTING}' {kind} {output}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("available", "auto"), [(False, "cpu"), (True, "cuda")])
def test_device_auto_is_the_card_if_there_is_one(monkeypatch, available, auto):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    assert pick_device("auto").type == auto
    assert pick_device("cpu").type == "cpu"
    if not available:
        with pytest.raises(InputError, match=r"runtime\.device"):
            pick_device("cuda")


def test_a_python_without_torch_is_one_line_and_exit_code_2():
    code = "import importlib.util as u; u.find_spec = lambda name: None; import stages"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "source .venv/bin/activate" in done.stderr
    assert "Traceback" not in done.stderr


def test_characters_that_a_terminal_would_obey_are_spelt_out():
    text = "a\x1b[2J\u202eb\u200b\x07\x9b\r\u2028\udc80"
    expected = "a⟨U+001B⟩[2J⟨U+202E⟩b⟨U+200B⟩⟨U+0007⟩⟨U+009B⟩⟨U+000D⟩⟨U+2028⟩⟨U+DC80⟩"
    assert visible(text) == "".join(map(visible, text)) == expected
    assert visible("one\ntwo\tthree é 日 \ufffd") == "one\ntwo three é 日 \ufffd"
    assert visible("می\u200cخ 👨\u200d👩") == "می\u200cخ 👨\u200d👩"  # joiners are part of words


def test_a_lock_names_who_holds_it_since_when(tmp_path):
    lock = tmp_path / "runs" / "deep" / "lock"
    with exclusive_lock(lock, "train"):
        with pytest.raises(InputError, match=rf"pid {os.getpid()}, since \d{{4}}"):
            exclusive_lock(lock, "train").__enter__()
        with exclusive_lock(tmp_path / "other", "train"):
            pass
    with exclusive_lock(lock, "train"):
        pass
