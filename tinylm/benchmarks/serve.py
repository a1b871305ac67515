"""One side of a comparison in a process of its own: prepared once, then one turn for each line it is sent.

`python -m tinylm.benchmarks.serve MODULE:FUNCTION`: the first line of standard input is the set-up as JSON, which
FUNCTION turns into a step; each further line is a request, and step(request) a turn. Answers go out as JSON lines;
whatever libraries print goes to standard error. Nothing but the standard library is imported before the side itself,
so that any environment can serve.
"""

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

Step = Callable[[Mapping[str, Any]], dict[str, Any]]


def prepare(target: str, setup: Mapping[str, Any]) -> Step:
    """The step that `module:function` makes of the set-up."""
    module, _, function = target.partition(":")
    return getattr(importlib.import_module(module), function)(setup)


def main() -> None:
    start = time.perf_counter()
    answers = os.dup(1)
    os.dup2(2, 1)

    def answer(make: Callable[[], dict[str, Any]]) -> bool:
        """Send what make() gives, or what went wrong; whether it went well."""
        try:
            made = make()
        except Exception as error:
            traceback.print_exc()
            made = {"error": f"{type(error).__name__}: {error}"}
        rest = (json.dumps(made) + "\n").encode()
        while rest:  # a pipe may take less than it is given
            rest = rest[os.write(answers, rest) :]
        return "error" not in made

    step: list[Step] = []

    def ready() -> dict[str, Any]:
        step.append(prepare(sys.argv[1], json.loads(sys.stdin.readline())))
        return {"ready_s": time.perf_counter() - start}

    if answer(ready):
        for line in sys.stdin:
            answer(lambda line=line: step[0](json.loads(line)))  # type: ignore[misc]


if __name__ == "__main__":
    main()
