"""python -m tinylm.learn.worker CHECK FILE [NAME ...]: grades FILE in a separate process.

NAME: what the file may not use. Prints each outcome as a JSON list as soon as it is known.
"""

import ast
import contextlib
import dataclasses
import importlib.util
import inspect
import io
import json
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from tinylm.learn.expect import Wrong
from tinylm.learn.grade import PROPERTY_S, READ, SILENT, Outcome

MOST_FRAMES = 4
MOST_PRINTED = 8


class OutOfTime(BaseException):
    """The student's code took too long; raised at the line that it has reached."""


ADVICE: dict[type[BaseException], str] = {
    NotImplementedError: "this part is still to be written",
    OutOfTime: "no answer after some seconds: does this loop end?",
    ImportError: "this import fails here; torch and Python's own modules are enough",
    SyntaxError: "Python cannot read this line",
    SystemExit: "your code ends the process; remove exit()",
    EOFError: "your code waits for input; remove input()",
    RecursionError: "the function calls itself without end",
}


def _out_of_time(number: int, frame: FrameType | None) -> None:
    raise OutOfTime


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTime inside the block after this many seconds of CPU time, and again if caught."""
    signal.signal(signal.SIGPROF, _out_of_time)
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def load(path: str | Path, name: str) -> ModuleType:
    """A file as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def explain(error: BaseException, path: str) -> tuple[list[str], str]:
    """(lines, suggestion) for what the student's code raised: its own last lines, then the error."""
    if isinstance(error, Wrong):
        return error.lines, error.suggestion
    suggestion = "".join(advice for kind, advice in ADVICE.items() if isinstance(error, kind))
    if isinstance(error, SyntaxError) and error.filename == path:
        return [f"line {error.lineno}: {(error.text or '').rstrip()}", str(error.msg)], suggestion
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path
    ]
    lines = [
        f"line {frame.lineno}, in {frame.name}: {frame.line}" for frame in frames[-MOST_FRAMES:]
    ]
    if not isinstance(error, OutOfTime):
        message = " ".join(str(error).split())[:300]
        lines.append(f"{type(error).__name__}: {message}".removesuffix(": "))
    return lines, suggestion


def read(path: str, avoid: list[str]) -> None:
    """Load the student's file. Raises Wrong at the first import or attribute that it may not use."""
    for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"), path)):
        names: list[str] = []
        if isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            dotted = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            names = ".".join(dotted).split(".")
        for name in names:
            if name in avoid:
                line = f"line {node.lineno} uses {name}"  # type: ignore[attr-defined]
                raise Wrong([line], "the exercise is to write this part yourself")
    load(path, "student")


def properties(check: ModuleType) -> dict[str, Callable[..., None]]:
    """The functions of check.py that have a docstring, by its first line, in their order."""
    result = {}
    for name, function in vars(check).items():
        is_own = inspect.isfunction(function) and function.__module__ == check.__name__
        if is_own and function.__doc__ and not name.startswith("_"):
            result[function.__doc__.strip().splitlines()[0]] = function
    return result


def hold(function: Callable[..., None]) -> None:
    """Call a property with the objects of the student's file that its arguments name."""
    student = vars(sys.modules["student"])
    names = inspect.signature(function).parameters
    for name in names:
        if name not in student:
            lines = [f"your file defines no {name}"]
            raise Wrong(lines, f"keep the name and the arguments of {name} as they were")
    function(*(student[name] for name in names))


def outcomes(check: str, path: str, avoid: list[str], seconds: float) -> Iterator[Outcome]:
    """Each property's outcome, up to the first that takes too long, or that makes others pointless."""
    printed = io.StringIO()

    def outcome(name: str, action: Callable[..., None], *arguments: Any) -> Outcome:
        try:
            with contextlib.redirect_stdout(printed), time_limit(seconds):
                action(*arguments)
        except BaseException as error:
            return Outcome(name, False, *explain(error, path))
        return Outcome(name, True, [])

    def stay_silent() -> None:
        lines = printed.getvalue().splitlines()
        if lines:
            raise Wrong(
                ["it printed:", *(line[:100] for line in lines[:MOST_PRINTED])],
                "remove print() when you have seen enough",
            )

    first = outcome(READ, read, path, avoid)
    yield first
    if not first.holds:
        return
    for name, function in properties(load(check, "check")).items():
        result = outcome(name, hold, function)
        yield result
        if result.suggestion == ADVICE[OutOfTime]:
            return
    yield outcome(SILENT, stay_silent)


def main() -> None:
    """Print every outcome as one line of JSON as soon as it is known."""
    results = sys.stdout
    check, path, *avoid = sys.argv[1:]
    for outcome in outcomes(check, path, avoid, PROPERTY_S):
        print(json.dumps(dataclasses.astuple(outcome)), file=results, flush=True)


if __name__ == "__main__":
    main()
