"""What every command and stage shares: exit codes, one clear line instead of a traceback, the stage's own time."""

import errno
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
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"no space left on the disk while writing {error.filename or 'a file'}; free some and run again"
    if isinstance(error, MemoryError) or "not enough memory" in str(error) or "out of memory" in str(error):
        return "out of memory; lower train.batch_size, model.context or the bench's widths and lengths"
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'}: {error.strerror or error}"
    if isinstance(error, CommandFailed):
        return str(error)
    return f"{type(error).__name__}: {error} (TINYLM_DEBUG=1 shows where)"


def guard(main: Callable[[], None]) -> int:
    """Run a command and return its exit code: 0 done, 1 failed, 2 bad input, 130 or 143 interrupted.

    Errors are single lines on standard error; TINYLM_DEBUG=1 adds the traceback.
    """
    signal.signal(signal.SIGTERM, _terminate)
    try:
        main()
        sys.stdout.flush()
        return DONE
    except BrokenPipeError:  # the reader went away (| head): nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
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
