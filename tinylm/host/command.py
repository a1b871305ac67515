"""What every command and stage shares: exit codes, and one clear line instead of a traceback."""

import argparse
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
from typing import Any, NoReturn

from tinylm.base.config import InputError
from tinylm.base.printable import visible
from tinylm.host.starting import wrong_python

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


class CommandFailed(Exception):
    """A run that cannot continue, for a reason given in one line (exit code 1)."""


class Parser(argparse.ArgumentParser):
    """Options of a command that `guard` runs: what is wrong with them is one line too, without the usage."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{self.prog}: {message}; {self.prog} --help lists what is allowed")

    def parse_known_args(self, *given: Any, **named: Any) -> Any:
        """A command that finds an unknown option says so itself: the parser above it would name its own --help."""
        found, unknown = super().parse_known_args(*given, **named)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


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
            os.write(
                2, b"\nstopping after this update; press again to stop at once\n"
            )  # print may be in progress
        elif time.monotonic() - first > _ONE_PRESS_S:
            signal.signal(number, before[number])
            signal.raise_signal(number)

    if not wanted or threading.current_thread() is not threading.main_thread():
        yield came
        return
    before: dict[int, Any] = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)
    }
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


_LONGEST_NAME, _LONGEST_ERROR = (
    255,
    1000,
)  # characters in a message, of a file's name and of a library's error
_NO_MEMORY = (
    *("out of memory", "not enough memory", "llocate memory", "bad_alloc", "failed to map segment"),
    *(
        "could not create a memory",
        "could not create a primitive\n",
    ),  # oneDNN's; with "descriptor": unsupported
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
        return (
            "out of memory; lower train.batch_size, model.context or the bench's widths and lengths"
        )
    if isinstance(error, OSError):
        return f"{_named(error) or 'a file'}: {error.strerror or error}"
    if isinstance(error, CommandFailed):
        return str(error)
    said = " ".join(str(error).split())[:_LONGEST_ERROR] or "no message"
    return f"{type(error).__name__}: {said} (TINYLM_DEBUG=1 shows where)"


def errors_in_one_line() -> None:
    """Let what ends this process before `guard` takes over be one line too. For `python -m`, before slow imports."""

    def show(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if os.environ.get("TINYLM_DEBUG") == "1":
            sys.__excepthook__(kind, error, trace)
        print(f"error: {visible(one_line(error))}", file=sys.stderr)

    if sys.argv[0] == "-m":
        sys.excepthook = show


_ESCAPED = "backslashreplace"  # a terminal without "é" is no reason to stop


class _Stream(io.FileIO):
    """A standard stream that a command outlives: what cannot be written is dropped, and the work goes on.

    needed: what is printed is all that the command does, so the first failure is raised.
    """

    needed = False
    lost: OSError | None = None  # why nothing can be written any more

    def write(self, data: Any) -> int:
        if self.lost is None:
            try:
                return super().write(data)
            except OSError as error:
                self.lost = error
        if self.needed:
            self.needed = False  # the interpreter tries again at exit
            raise self.lost
        return memoryview(data).nbytes


def _raw(stream: Any) -> _Stream | None:
    """The stream below a text stream that `open_streams` has made; None for any other, such as a test's."""
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    return raw if isinstance(raw, _Stream) else None


def _opened(number: int, old: io.TextIOWrapper | None) -> io.TextIOWrapper:
    """Standard output (1) or error (2) as a `_Stream`, buffered as the interpreter's own was."""
    raw = _Stream(number, "w", closefd=False)
    if old is None:
        raw.lost = OSError(errno.EBADF, "closed")
        return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", _ESCAPED)
    old.flush()
    buffer: Any = (
        io.BufferedWriter(raw) if isinstance(old.buffer, io.BufferedWriter) else raw
    )  # python -u has none
    kept = {
        "line_buffering": old.line_buffering,
        "write_through": old.write_through,
        "newline": "\n",
    }
    return io.TextIOWrapper(buffer, old.encoding, _ESCAPED, **kept)  # type: ignore[arg-type]


def open_streams() -> None:
    """Put a `_Stream` in place of standard output and error; and /dev/null below a standard stream that is closed.

    Otherwise a file that is opened later would take the number of the closed one.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
        if number == 0:
            sys.stdin = stream or open(0, encoding="utf-8")  # noqa: SIM115 (for the life of the process)
        elif stream is None or stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, _opened(number, stream))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPED)


def printing_is_all(so: bool) -> None:
    """Say whether a command does nothing but print. If so, it ends where nobody can read it; if not, it works on.

    Raises CommandFailed if it is so and standard output is closed.
    """
    raw = _raw(sys.stdout)
    if raw is None:
        return
    raw.needed = so
    if so and raw.lost is not None:
        raise CommandFailed(_unread(raw.lost))


def _unread(error: OSError) -> str:
    """What became of a lost standard output, in one line."""
    if error.errno == errno.EBADF:
        return "standard output is closed: nothing can be printed"
    return f"standard output: {error.strerror}; not all was printed"


def _refuse_surroundings() -> None:
    """InputError where libraries would end the process with messages of their own.

    That is in a folder that was removed, and under python -OO: some of them write to their documentation strings.
    """
    if sys.flags.optimize > 1:
        raise InputError(
            "PYTHONOPTIMIZE=2 (python -OO) drops strings that libraries need; allowed: 0, 1 or unset"
        )
    try:
        os.getcwd()
    except OSError as error:
        raise InputError(
            f"the current folder is gone ({error.strerror}); cd into one that is there"
        ) from None


def _by_ctrl_c(error: BaseException | None) -> bool:
    """Whether a KeyboardInterrupt is behind it: a library that is being imported may raise an error of its own."""
    if error is None or isinstance(error, KeyboardInterrupt):
        return error is not None
    return _by_ctrl_c(error.__cause__ or error.__context__)


def _judged(error: BaseException) -> tuple[int, str]:
    """(exit code, message) of what ended a command."""
    raw = _raw(sys.stdout)
    if raw is not None and error is raw.lost:  # whoever stops reading (| head) has seen enough
        return (DONE, "") if isinstance(error, BrokenPipeError) else (FAILED, _unread(raw.lost))
    if isinstance(error, ModuleNotFoundError) and (wrong := wrong_python()):
        return BAD_INPUT, wrong
    return (BAD_INPUT, str(error)) if isinstance(error, InputError) else (FAILED, one_line(error))


def _warn_of_lost_output() -> None:
    """Say that a command worked on without its standard output, unless that is what its reader chose."""
    raw = _raw(sys.stdout)
    if (
        raw is not None
        and raw.lost is not None
        and raw.lost.errno not in (errno.EPIPE, errno.EBADF)
    ):
        print(f"warning: {_unread(raw.lost)}; the work itself was done", file=sys.stderr)


def _interrupt_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """A signal that arrives within a destructor or a callback, where no exception can be raised, comes a second time.

    Python would print a traceback there and the command would go on as if nobody had pressed Ctrl-C.
    """
    error = unraisable.exc_value
    if not isinstance(error, KeyboardInterrupt | Interrupted):
        sys.__unraisablehook__(unraisable)
        return
    number = error.number if isinstance(error, Interrupted) else signal.SIGINT
    again = threading.Timer(0.05, signal.pthread_kill, [threading.main_thread().ident, number])
    again.daemon = (
        True  # of an interpreter that has ended its work and is about to stop, nothing waits for it
    )
    with contextlib.suppress(RuntimeError):  # which starts no threads any more
        again.start()


_at_end: list[Callable[[], None]] = []


def check_at_end(check: Callable[[], None]) -> None:
    """Have `guard` call this when the command has done its work; the command fails if it raises."""
    _at_end.append(check)


def guard(main: Callable[[], None], prints: bool = False) -> int:
    """Run a command and return its exit code: 0 done, 1 failed, 2 bad input, 130 or 143 interrupted.

    prints: printing is all that it does, see `printing_is_all`. Any other command finishes its work when nobody reads
    what it prints (| head, a full disk), and its exit code says how the work ended. Errors are single lines on
    standard error; TINYLM_DEBUG=1 adds the traceback.
    """
    open_streams()
    sys.unraisablehook = _interrupt_again
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _refuse_surroundings()
        if (raw := _raw(sys.stdout)) is not None:
            raw.needed = prints
        _at_end.clear()
        main()
        for check in _at_end:
            check()
        sys.stdout.flush()
        _warn_of_lost_output()
        return DONE
    except Interrupted as error:
        print(error, file=sys.stderr)
        return 128 + error.number
    except (KeyboardInterrupt, Exception) as error:
        if _by_ctrl_c(error):
            print("interrupted", file=sys.stderr)
            return INTERRUPTED
        code, message = _judged(error)
        if os.environ.get("TINYLM_DEBUG") == "1":
            traceback.print_exc()
    for line in (
        message.split("\n") if code else ()
    ):  # a file or its name may contain control characters
        print(f"error: {visible(line)}", file=sys.stderr)
    return code
