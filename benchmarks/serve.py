"""One contender in its own process: prepared once, then one trial for each request.

`python -m benchmarks.serve MODULE:FUNCTION`: the first line of standard input is the setup as JSON, from which
FUNCTION makes a step; each further line is a request, and step(request) is a trial. Answers are JSON lines; what
libraries print goes to standard error. With `--own`, threads are set up as the command tinylm sets them up. Only the
standard library is imported before the contender, so that any environment can serve.
"""

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
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if OWN in sys.argv[2:]:
        from tinylm.host.starting import start_command

        start_command()
    module, _, function = sys.argv[1].partition(":")
    make_step = getattr(importlib.import_module(module), function)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    step: Step | None = None
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any] = {}
        try:
            if step is None:
                step = make_step(request)
            else:
                answer = step(request)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
