"""What every command and stage shares: exit codes, one clear line instead of a traceback, the stage's own time."""

import errno
import io
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from tinylm.config import InputError
from tinylm.files import write_json
from tinylm.runtime import visible

DONE, FAILED, BAD_INPUT, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


class CommandFailed(Exception):
    """A run that cannot go on for a reason that one line tells (exit code 1)."""


def _terminate(*_: object) -> None:
    raise SystemExit(TERMINATED)


def _line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left on the disk for {error.filename or 'a file'} ({error.strerror}); free some, run again"
    if isinstance(error, MemoryError) or "not enough memory" in str(error) or "out of memory" in str(error):
        return "out of memory; lower train.batch_size, model.context or the bench's widths and lengths"
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'}: {error.strerror or error}"
    if isinstance(error, CommandFailed):
        return str(error)
    return f"{type(error).__name__}: {error} (TINYLM_DEBUG=1 shows where)"


def guard(main: Callable[[], None], for_a_reader: bool = False) -> int:
    """Run a command and return its exit code: 0 done, 1 failed, 2 bad input, 130 or 143 interrupted.

    for_a_reader: what it prints is all that it does, so that a reader who goes away (| head) ends it well; any other
    command has failed then. Errors are single lines on standard error; TINYLM_DEBUG=1 adds the traceback.
    """
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that knows no "é" is no reason to stop
    try:
        main()
        sys.stdout.flush()
        return DONE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if for_a_reader:
            return DONE
        code, message = FAILED, "standard output was closed before the end; run again without the pipe"
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        code, message = (BAD_INPUT, str(error)) if isinstance(error, InputError) else (FAILED, _line(error))
        if os.environ.get("TINYLM_DEBUG") == "1":
            traceback.print_exc()
    for line in message.split("\n"):  # what stands in a file or its name may hold what a terminal obeys
        print(f"error: {visible(line)}", file=sys.stderr)
    return code


def stage_time(name: str, start: float, conditions: dict[str, Any], **figures: Any) -> None:
    """Write metrics/NAME_time.json: seconds since `start` (time.perf_counter), further figures, conditions."""
    seconds = round(time.perf_counter() - start, 3)
    write_json(f"metrics/{name}_time.json", {"seconds": seconds, **figures, "conditions": conditions})
