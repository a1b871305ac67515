"""python -m tinylm.learn.worker CHECK FILE [NAME ...]: grades FILE in a separate process.

NAME: what the file may not use. Prints each outcome as a JSON list as soon as it is known.
"""

import ast
import inspect
import io
import json
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FrameType, ModuleType

from tinylm.learn.expect import Wrong
from tinylm.learn.grade import END, READ, UNWRITTEN, Outcome, checks

CPU_S = 8.0  # for all properties
MOST_LINES = 8  # of a traceback


class OutOfTime(BaseException):
    """The student's code took too long; raised at the line that it has reached."""


ADVICE: dict[type[BaseException], str] = {
    NotImplementedError: UNWRITTEN,
    OutOfTime: "no result after some seconds: does this loop end?",
    ImportError: "this import fails here; use torch and Python's own modules only",
    SyntaxError: "Python cannot read this line",
    SystemExit: "your code ends the process; remove exit()",
    EOFError: "your code waits for input; remove input()",
}


def _out_of_time(number: int, frame: FrameType | None) -> None:
    raise OutOfTime


def load(path: str | Path, name: str) -> ModuleType:
    """A file as a module."""
    module = ModuleType(name)
    sys.modules[name] = module
    SourceFileLoader(name, str(path)).exec_module(module)
    return module


def explain(error: BaseException, path: str) -> tuple[list[str], str]:
    """(lines, suggestion) for what the student's code raised: its own last lines, then the error."""
    if isinstance(error, Wrong):
        return error.lines, error.suggestion
    suggestion = "".join(advice for kind, advice in ADVICE.items() if isinstance(error, kind))
    lines = []
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == path:
            lines.append(f"line {frame.lineno}, in {frame.name}: {frame.line}")
    lines = lines[-MOST_LINES:]
    if not isinstance(error, OutOfTime):
        lines += "".join(traceback.format_exception_only(error)).splitlines()[:MOST_LINES]
    return lines, suggestion


def read(path: str, avoid: list[str]) -> None:
    """Load the student's file. Raises Wrong at the first import or attribute that it may not use."""
    for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"), path)):
        name = ""
        if isinstance(node, ast.Attribute):
            name = node.attr
        elif isinstance(node, ast.alias):
            name = node.name
        elif isinstance(node, ast.ImportFrom):
            name = node.module or ""
        if set(name.split(".")) & set(avoid):
            line = f"line {node.lineno} uses {name}"  # type: ignore[attr-defined]
            raise Wrong([line], "the exercise is to write this part yourself")
    load(path, "student")


def run_property(function: Callable[..., None]) -> None:
    """Run one check; its arguments are looked up by name in the student's module."""
    student = sys.modules["student"]
    function(*(getattr(student, name) for name in inspect.signature(function).parameters))


def outcomes(check: str, path: str, avoid: list[str]) -> Iterator[Outcome]:
    """Each property's outcome, up to the first that takes too long."""
    try:
        read(path, avoid)
    except BaseException as error:  # a student's file may raise anything
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        yield Outcome(READ, False, *explain(error, path))
        return
    yield Outcome(READ, True, [])
    module = load(check, "check")
    for name, function in checks(check).items():
        try:
            run_property(getattr(module, function))
        except OutOfTime as error:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            yield Outcome(name, False, *explain(error, path))
            return
        except BaseException as error:
            yield Outcome(name, False, *explain(error, path))
        else:
            yield Outcome(name, True, [])


def main() -> None:
    """Print every outcome as one line of JSON as soon as it is known, and END after the last."""
    check, path, *avoid = sys.argv[1:]
    results = sys.stdout
    sys.stdout = io.StringIO()  # what the student's code prints is not shown
    signal.signal(signal.SIGPROF, _out_of_time)
    signal.setitimer(signal.ITIMER_PROF, CPU_S, 0.2)  # again, if the student's code catches it
    for outcome in outcomes(check, str(Path(path).resolve()), avoid):
        print(json.dumps(outcome), file=results, flush=True)
    print(END, file=results)


if __name__ == "__main__":
    main()
