"""What every command and stage shares: exit codes, one clear line instead of a traceback, and the stage's time."""

import contextlib
import errno
import io
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.base.files import write_json
from tinylm.host.memory import peak_figures
from tinylm.host.runtime import visible

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


class CommandFailed(Exception):
    """A run that cannot continue, for a reason given in one line (exit code 1)."""


class Interrupted(BaseException):
    """A signal ended a run; the message is one line that says how far it got and how to continue."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


_ONE_PRESS_S = 0.3  # a wrapper may forward a signal that the terminal has already sent to the whole process group


@contextlib.contextmanager
def signals_noted(wanted: bool = True) -> Iterator[list[int]]:
    """Yield a list that receives the number of a SIGINT or SIGTERM that arrives inside, in place of its usual effect.

    A second one takes effect at once. Where `wanted` is false, or not in the main thread, nothing changes.
    """
    came: list[int] = []
    first = 0.0

    def note(number: int, _: object) -> None:
        nonlocal first
        if not came:
            came.append(number)
            first = time.monotonic()
            os.write(2, b"\nstopping after this update; press again to stop at once\n")  # print may be in progress
        elif time.monotonic() - first > _ONE_PRESS_S:
            signal.signal(number, before[number])
            signal.raise_signal(number)

    if not wanted or threading.current_thread() is not threading.main_thread():
        yield came
        return
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, note)
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminate(*_: object) -> None:
    raise Interrupted(signal.SIGTERM, "terminated")


_LONGEST_NAME = 255  # of a file, in a message
_NO_MEMORY = (
    *("out of memory", "not enough memory", "llocate memory", "bad_alloc", "failed to map segment"),
    *("could not create a memory", "could not create a primitive\n"),  # oneDNN's; with "descriptor": unsupported
)


def is_out_of_memory(error: BaseException) -> bool:
    """Python's MemoryError, or what torch's allocators and the system raise instead."""
    return isinstance(error, MemoryError) or any(text in f"{error}\n" for text in _NO_MEMORY)


def _named(error: OSError) -> str:
    name = str(error.filename or "")
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."


def one_line(error: BaseException) -> str:
    """What ended a command, in one line for the user."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        what = _named(error) or "a file or the standard output"
        return f"no space left on the disk for {what} ({error.strerror}); free some, run again"
    if is_out_of_memory(error) and not isinstance(error, CommandFailed):
        return "out of memory; lower train.batch_size, model.context or the bench's widths and lengths"
    if isinstance(error, OSError):
        return f"{_named(error) or 'a file'}: {error.strerror or error}"
    if isinstance(error, CommandFailed):
        return str(error)
    return f"{type(error).__name__}: {error} (TINYLM_DEBUG=1 shows where)"


def default_signals() -> None:
    """Let Ctrl-C end this process silently until `guard` takes over. For `python -m`, before slow imports."""
    if sys.argv[0] == "-m" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def errors_in_one_line() -> None:
    """Let what ends this process before `guard` takes over be one line too. For `python -m`, before slow imports."""

    def show(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if os.environ.get("TINYLM_DEBUG") == "1":
            sys.__excepthook__(kind, error, trace)
        print(f"error: {visible(one_line(error))}", file=sys.stderr)

    if sys.argv[0] == "-m":
        sys.excepthook = show


def _open_streams() -> bool:
    """Put /dev/null in place of a standard stream that was closed before the start, so that no file takes its number.

    Returns whether standard output was there.
    """
    printing = sys.stdout is not None
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)
            raw = io.FileIO(number, "w" if number else "r")
            buffer = io.BufferedWriter(raw) if number else io.BufferedReader(raw)
            setattr(sys, name, io.TextIOWrapper(buffer, encoding="utf-8"))
            if null > 2:
                os.close(null)
    return printing


def _refuse_no_folder() -> None:
    """InputError if the current folder was removed: libraries would end the process with messages of their own."""
    try:
        os.getcwd()
    except OSError as error:
        raise InputError(f"the current folder is gone ({error.strerror}); cd into one that is there") from None


def _drop_unwritable() -> None:
    """Discard what standard output refuses; otherwise the interpreter tries again at exit, with a traceback."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def guard(main: Callable[[], None], for_a_reader: bool = False) -> int:
    """Run a command and return its exit code: 0 done, 1 failed, 2 bad input, 130 or 143 interrupted.

    for_a_reader: printing is all that it does, so a reader who goes away (| head) is a normal end; for any other
    command it is a failure. Errors are single lines on standard error; TINYLM_DEBUG=1 adds the traceback.
    """
    printing = _open_streams()
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without "é" is no reason to stop
    try:
        _refuse_no_folder()
        if for_a_reader and not printing:
            raise CommandFailed("standard output is closed: nothing can be printed")
        main()
        sys.stdout.flush()
        return DONE
    except BrokenPipeError:
        _drop_unwritable()
        if for_a_reader:
            return DONE
        code, message = FAILED, "standard output was closed before the end; run again without the pipe"
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except Interrupted as error:
        print(error, file=sys.stderr)
        return 128 + error.number
    except Exception as error:
        code, message = (BAD_INPUT, str(error)) if isinstance(error, InputError) else (FAILED, one_line(error))
        if os.environ.get("TINYLM_DEBUG") == "1":
            traceback.print_exc()
        _drop_unwritable()
    for line in message.split("\n"):  # a file or its name may contain control characters
        print(f"error: {visible(line)}", file=sys.stderr)
    return code


def stage_time(name: str, start: float, conditions: dict[str, Any], **figures: Any) -> None:
    """Write metrics/NAME_time.json: seconds since `start` (time.perf_counter), peak memory, figures, conditions."""
    seconds = round(time.perf_counter() - start, 3)
    write_json(paths.times(name), {"seconds": seconds, **peak_figures(), **figures, "conditions": conditions})
