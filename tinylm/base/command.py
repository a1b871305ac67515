"""What every command and stage shares: exit codes, signals, and one clear line per error."""

import argparse
import contextlib
import errno
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from tinylm.base.config import InputError
from tinylm.base.printable import visible

DONE = 0
FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130

_SAME_KEY_PRESS_S = 0.3  # a launcher may repeat a signal that the terminal sent to all
_OUT_OF_MEMORY = (
    "out of memory",
    "not enough memory",
    "llocate memory",
    "bad_alloc",
    "failed to map segment",
    "could not create a memory",
    "could not create a primitive\n",  # oneDNN's; with "descriptor" it means: not supported
)


class CommandFailed(Exception):
    """A run that cannot continue, for a reason given in one line (exit code 1)."""


class Interrupted(BaseException):
    """A signal ended a run. The message is one line: how far it got and how to continue."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class Parser(argparse.ArgumentParser):
    """A parser whose errors are InputError: one line without the usage text."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{self.prog}: {message}; see {self.prog} --help")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse unknown arguments here, so that the message names this command, not the whole program."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


class _FirstSignal:
    """Notes the first SIGINT or SIGTERM in `received`; a second one takes effect at once."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self._at = 0.0  # time of the first signal in seconds
        numbers = (signal.SIGINT, signal.SIGTERM)
        self._handlers = {number: signal.getsignal(number) for number in numbers}

    def install(self) -> None:
        """Replace the signal handlers, except where a signal is ignored."""
        for number, handler in self._handlers.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self._note)

    def restore(self) -> None:
        """Restore the previous signal handlers."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: object) -> None:
        if not self.received:
            self._at = time.monotonic()
            self.received.append(number)
            if number == signal.SIGINT:
                os.write(2, b"\nstopping after this update; press Ctrl-C again to stop at once\n")
        elif time.monotonic() - self._at > _SAME_KEY_PRESS_S:
            signal.signal(number, self._handlers[signal.Signals(number)])
            signal.raise_signal(number)


@contextlib.contextmanager
def signals_noted(wanted: bool = True) -> Iterator[list[int]]:
    """Yield a list that receives the number of a SIGINT or SIGTERM that arrives inside the block.

    A second signal takes effect at once, and one that the block has not acted on takes effect after
    it: a block that acts on a signal ends by an exception. Nothing changes where `wanted` is false
    or outside the main thread.
    """
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield []
        return
    first = _FirstSignal()
    try:
        first.install()
        yield first.received
    finally:
        first.restore()
    if first.received:
        signal.raise_signal(first.received[0])


def _terminate(*_: object) -> None:
    raise Interrupted(signal.SIGTERM, "terminated")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether it is a MemoryError, or what torch's allocators and the system raise instead."""
    return isinstance(error, MemoryError) or any(text in f"{error}\n" for text in _OUT_OF_MEMORY)


def one_line(error: BaseException) -> str:
    """What ended a command, in one line for the user."""
    if isinstance(error, CommandFailed):
        return str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        name = error.filename or f"{os.environ.get('TMPDIR', '/tmp')}, a file or standard output"
        return f"no space left on the disk for {name} ({error.strerror}); free some and run again"
    if is_out_of_memory(error):
        return "out of memory; lower train.batch_size, model.context or a bench's widths or lengths"
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'}: {error.strerror or error}"
    message = " ".join(str(error).split())[:1000] or "no message"
    return f"{type(error).__name__}: {message} (TINYLM_DEBUG=1 shows where)"


def _prepare() -> None:
    """Let signals raise, and let any terminal print any character."""
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr, flush=True)


def _leave_closed_output() -> None:
    """Point standard output to nowhere: its reader left, and flushing at exit would fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)


def run_command(main: Callable[[], None], prints: bool = False) -> int:
    """Run a command; returns its exit code: 0 done, 1 failed, 2 bad input, 130 or 143 interrupted.

    Errors and warnings are single lines on standard error; TINYLM_DEBUG=1 adds the traceback.
    prints: the command only prints; a closed pipe (| head) is success.
    """
    _prepare()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            main()
        sys.stdout.flush()
        return DONE
    except Interrupted as error:
        print(error, file=sys.stderr)
        return 128 + error.number
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _leave_closed_output()
        if prints:
            return DONE
        print("error: standard output was closed before the work was done", file=sys.stderr)
        return FAILED
    except Exception as error:
        if os.environ.get("TINYLM_DEBUG") == "1":
            traceback.print_exc()
        is_input = isinstance(error, InputError)
        message = str(error) if is_input else one_line(error)
        for line in message.split("\n"):  # file names may contain control characters
            print(f"error: {visible(line)}", file=sys.stderr)
        return BAD_INPUT if is_input else FAILED
