"""python -m tinylm.learn.worker: grades one file in a process of its own.

Its argument is JSON: the paths of check.py and of the student's file, names to avoid, the seconds
for a property. It prints one JSON line when a property begins, and one with its outcome.
"""

import ast
import contextlib
import importlib.util
import inspect
import io
import json
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from tinylm.learn.expect import Wrong

READ = "the file can be read"
SILENT = "it prints nothing"
MOST_FRAMES = 4


class OutOfTime(BaseException):
    """The student's code took too long; raised where it is at that time."""


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
    """Raise OutOfTime inside the block after so many seconds of computing, and again if caught."""
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


def own_lines(error: BaseException, path: str) -> list[str]:
    """What was raised, and the lines of the student's file that led to it, the last ones."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if frame.filename == path]
    lines = [
        f"line {frame.lineno}, in {frame.name}: {frame.line}" for frame in theirs[-MOST_FRAMES:]
    ]
    if isinstance(error, SyntaxError) and error.filename == path:
        lines = [f"line {error.lineno}: {(error.text or '').rstrip()}"]
    if isinstance(error, OutOfTime):
        return lines
    message = " ".join(str(error).split())[:300]
    return [*lines, f"{type(error).__name__}: {message}" if message else type(error).__name__]


def explain(error: BaseException, path: str) -> tuple[list[str], str]:
    """(lines, suggestion) for what the student's code raised."""
    if isinstance(error, Wrong):
        return error.lines, error.suggestion
    fitting = [advice for kind, advice in ADVICE.items() if isinstance(error, kind)]
    return own_lines(error, path), "".join(fitting)


def forbidden(source: str, avoid: list[str]) -> str:
    """The first use of a name to avoid, or of tinylm itself, in words; "" if there is none."""
    nodes = list(ast.walk(ast.parse(source)))
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.Name) and node.id not in defined:
            names = [node.id]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names] + (node.module or "").split(".")[:1]
        elif isinstance(node, ast.Import):
            names = [alias.name.partition(".")[0] for alias in node.names]
        for name in names:
            if name in avoid:
                return f"line {node.lineno} uses {name}"  # type: ignore[attr-defined]
    return ""


def properties(check: ModuleType) -> dict[str, Callable[..., None]]:
    """The functions of check.py that have a docstring, by its first line, in their order."""
    result = {}
    for name, function in vars(check).items():
        is_own = inspect.isfunction(function) and function.__module__ == check.__name__
        if is_own and function.__doc__ and not name.startswith("_"):
            result[function.__doc__.strip().splitlines()[0]] = function
    return result


def parts(student: ModuleType, function: Callable[..., None]) -> list[Any]:
    """What a property asks of the student's file by the names of its arguments."""
    names = list(inspect.signature(function).parameters)
    for name in names:
        if not hasattr(student, name):
            lines = [f"your file defines no {name}"]
            raise Wrong(lines, f"keep the name and the arguments of {name} as they were")
    return [getattr(student, name) for name in names]


def run_check(order: dict[str, Any], tell: Callable[[dict[str, Any]], object]) -> None:
    """Grade a file; `tell` gets {"begin": property}, then {"ok": ...}, and {"end": True} at last."""
    path = order["file"]
    seconds = order["seconds"]
    printed = io.StringIO()
    student = ModuleType("student")

    def run(name: str, action: Callable[[], None]) -> bool:
        """Whether it is worth going on."""
        tell({"begin": name})
        try:
            with contextlib.redirect_stdout(printed), time_limit(seconds):
                action()
        except BaseException as error:
            lines, suggestion = explain(error, path)
            tell({"ok": False, "lines": lines, "suggestion": suggestion})
            return name != READ and not isinstance(error, OutOfTime)
        tell({"ok": True})
        return True

    def read() -> None:
        nonlocal student
        use = forbidden(Path(path).read_text(encoding="utf-8"), order["avoid"])
        if use:
            raise Wrong([use], "the exercise is to write this part yourself")
        student = load(path, "student")

    def stay_silent() -> None:
        lines = printed.getvalue().splitlines()
        if lines:
            first = f"it printed {len(lines)} lines, the first: {lines[0][:80]}"
            raise Wrong([first], "remove print() when you have seen enough")

    def hold(function: Callable[..., None]) -> None:
        function(*parts(student, function))

    if run(READ, read):
        checks = properties(load(order["check"], "check"))
        if all(run(name, partial(hold, function)) for name, function in checks.items()):
            run(SILENT, stay_silent)
    tell({"end": True})


def main() -> None:
    """Print every outcome as one line of JSON as soon as it is known."""
    results = sys.stdout
    run_check(
        json.loads(sys.argv[1]), lambda event: print(json.dumps(event), file=results, flush=True)
    )


if __name__ == "__main__":
    main()
