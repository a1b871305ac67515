"""One contender in its own process: prepared once, then one trial for each line it is sent.

`python -m benchmarks.serve MODULE:FUNCTION`: the first line of standard input is the setup as JSON, which
FUNCTION turns into a step; each further line is a request, and step(request) a trial. Answers go out as JSON lines;
whatever libraries print goes to standard error. Nothing but the standard library is imported before the contender, so
that any environment can serve; with `--own` after it, threads and caches are first set up as our commands do it.
"""

import contextlib
import ctypes
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

Step = Callable[[Mapping[str, Any]], dict[str, Any]]
OWN = "--own"


def prepare(target: str, setup: Mapping[str, Any]) -> Step:
    """The step that `module:function` makes of the setup."""
    module, _, function = target.partition(":")
    return getattr(importlib.import_module(module), function)(setup)


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(
            1, signal.SIGKILL
        )  # PR_SET_PDEATHSIG: a trial ends with the benchmark
    if OWN in sys.argv[2:]:
        from tinylm.host.starting import start_command

        start_command()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    step: Step | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if step is None:
                step, answer = prepare(sys.argv[1], request), {}
            else:
                answer = step(request)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
