"""Student code runs in a copy of the grader's process, with limits on its time.

What it reports goes through memory that both processes share. The copy holds no descriptor that leads
to the grader's results, so no output of student code can be taken for them.
"""

import contextlib
import json
import mmap
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import IO, Any, NamedTuple, NoReturn

import psutil

CPU_S = 8.0  # of processor time, which a busy machine does not change
GRACE_S = 2  # of processor time, until code that catches OutOfTime is killed
IDLE_S = 30.0  # of wall time without computing, such as a sleep or a wait for a lock
LEAST_CPU_S = 0.05  # of processor time in IDLE_S, so that a process counts as computing
POLL_S = 0.01
MOST_REPORT = 4 << 20  # bytes
LARGEST_FILE = 64 << 20  # bytes of a file that student code writes
_LENGTH = 8  # bytes at the start of the shared memory: how long the report is


class OutOfTime(BaseException):
    """The student's code took too long; raised at the line that it has reached."""


class Ended(NamedTuple):
    """How a copy ended. report: what its function returned, None if it ended before; then why."""

    report: Any
    reason: list[str]
    was_stopped: bool  # by a limit


def _out_of_time(number: int, frame: FrameType | None) -> None:
    raise OutOfTime


def _lower(limit: int, value: int) -> None:
    """Set one of the system's limits, unless it is lower already."""
    _, highest = resource.getrlimit(limit)
    if highest == resource.RLIM_INFINITY or highest > value:
        resource.setrlimit(limit, (value, value + 1))


def limit_cpu(seconds: float) -> None:
    """Let OutOfTime be raised after this processor time, and end the process soon after it."""
    signal.signal(signal.SIGPROF, _out_of_time)
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.2)  # again, if student code catches it
    _lower(resource.RLIMIT_CPU, int(seconds) + GRACE_S)


def stop_limit() -> None:
    """Let OutOfTime be raised no more."""
    signal.setitimer(signal.ITIMER_PROF, 0.0)


def _be_the_copy(function: Callable[[], Any], shared: mmap.mmap, errors: IO[bytes]) -> NoReturn:
    """Run the function, report what it returns, and end without any handler of student code."""
    own = os.getpid()
    try:
        os.setsid()  # signals to its group reach its own children only
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor, target in enumerate((null, null, errors.fileno())):
            os.dup2(target, descriptor)
        sys.stdout = open(os.devnull, "w", encoding="utf-8", errors="replace")  # noqa: SIM115
        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_FSIZE, LARGEST_FILE)
        limit_cpu(CPU_S)
        report = json.dumps(function()).encode()
        stop_limit()
        if os.getpid() == own:  # student code may have forked
            shared[_LENGTH : _LENGTH + len(report)] = report
            shared[:_LENGTH] = len(report).to_bytes(_LENGTH)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(0)


def _wait(pid: int) -> tuple[int, float, bool]:
    """(exit code, processor time, whether it was ended for not computing) of a copy."""
    computed_at = time.monotonic()
    computed_s = 0.0
    is_idle = False
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code, usage.ru_utime + usage.ru_stime, is_idle
        time.sleep(POLL_S)
        with contextlib.suppress(psutil.Error):  # it may have ended meanwhile
            times = psutil.Process(pid).cpu_times()
            if times.user + times.system > computed_s + LEAST_CPU_S:
                computed_s = times.user + times.system
                computed_at = time.monotonic()
        if time.monotonic() > computed_at + IDLE_S:
            is_idle = True
            os.kill(pid, signal.SIGKILL)


def _report(shared: mmap.mmap) -> Any:
    """What the copy reported, or None."""
    length = int.from_bytes(shared[:_LENGTH])
    try:
        return json.loads(shared[_LENGTH : _LENGTH + length]) if length else None
    except ValueError:
        return None


def run_apart(function: Callable[[], Any]) -> Ended:
    """Run a function in a copy of this process. What it returns must fit into JSON."""
    with mmap.mmap(-1, MOST_REPORT) as shared, tempfile.TemporaryFile() as errors:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _be_the_copy(function, shared, errors)
        try:
            code, cpu_s, is_idle = _wait(pid)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)  # and what it has started
        report = _report(shared)
        errors.seek(max(errors.seek(0, os.SEEK_END) - 2000, 0))
        last_lines = errors.read().decode(errors="replace").strip().splitlines()[-1:]
    if report is not None:
        return Ended(report, [], False)
    if is_idle:
        reason = f"{IDLE_S:g} s without computing: does your code wait for something?"
        return Ended(None, [reason], True)
    if code in (-signal.SIGXCPU, -signal.SIGKILL) and cpu_s >= CPU_S:
        reason = f"{CPU_S:g} s: one call takes too long, or errors are swallowed"
        return Ended(None, [reason], True)
    return Ended(None, [f"the process ended with code {code}", *last_lines], False)
