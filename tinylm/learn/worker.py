"""python -m tinylm.learn.worker CHECK FILE [NAME ...]: grades FILE in a separate process.

NAME: what the file may not use. Prints each outcome as a JSON list as soon as it is known. FILE is
loaded in copies of this process only, one for each property.
"""

import inspect
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from tinylm.learn.apart import OutOfTime, run_apart, stop_limit
from tinylm.learn.course import COURSE
from tinylm.learn.expect import Wrong
from tinylm.learn.grade import END, READ, UNWRITTEN, Outcome, checks
from tinylm.learn.student import Surroundings, load_student, seed

MOST_LINES = 8  # of a traceback
LONGEST = 2000  # characters of a line

ADVICE: dict[type[BaseException], str] = {
    OutOfTime: "no result after some seconds: does this loop end?",
    ImportError: (
        "this import fails here; use torch, Python's own modules and files of your folder exercises"
    ),
    SyntaxError: "Python cannot read this line",
    SystemExit: "your code ends the process; remove exit()",
    EOFError: "your code waits for input; remove input()",
}


def load(path: str | Path, name: str) -> ModuleType:
    """A file of ours as a module."""
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    SourceFileLoader(name, str(path)).exec_module(module)
    return module


def explain(error: BaseException, file: Path) -> tuple[list[str], str]:
    """(lines, suggestion) for what student code raised: its own last lines, then the error."""
    if isinstance(error, Wrong):
        return error.lines, error.suggestion
    suggestion = "".join(advice for kind, advice in ADVICE.items() if isinstance(error, kind))
    frames = traceback.extract_tb(error.__traceback__)
    if _is_unwritten(error, frames, file):
        suggestion = UNWRITTEN
    lines = []
    for frame in frames:
        path = Path(frame.filename)
        if path.is_relative_to(file.parent):
            where = "" if path == file else f"{path.name}, "
            lines.append(f"{where}line {frame.lineno}, in {frame.name}: {frame.line}")
    lines = lines[-MOST_LINES:]
    if not isinstance(error, OutOfTime):
        lines += "".join(traceback.format_exception_only(error)).splitlines()[:MOST_LINES]
    here = f"{file.parents[1]}{os.sep}"  # a temporary folder, which says nothing to the student
    return [line[:LONGEST].replace(here, "") for line in lines], suggestion


def _is_unwritten(error: BaseException, frames: traceback.StackSummary, file: Path) -> bool:
    """Whether the student's own code raised NotImplementedError, which torch also raises."""
    if not isinstance(error, NotImplementedError) or not frames:
        return False
    last = frames[-1]
    is_own = Path(last.filename).is_relative_to(file.parent)
    return is_own and "NotImplementedError" in (last.line or "")


def judge(name: str, check: ModuleType, file: Path, avoid: list[str]) -> Outcome:
    """Load the student's file and test one property in this process; READ tests no more."""
    function = checks(str(check.__file__)).get(name)
    surroundings = Surroundings(check)
    settings = surroundings.settings()
    seed()
    try:
        try:
            student = load_student(file, avoid)
        finally:
            surroundings.restore(settings)
        if function:
            test = getattr(check, function)
            seed()
            test(
                *(
                    surroundings.restored_after(getattr(student, argument))
                    for argument in inspect.signature(test).parameters
                )
            )
    except BaseException as error:  # a student's file may raise anything
        stop_limit()
        return Outcome(name, False, *explain(error, file))
    return Outcome(name, True, [])


def _leave_here(file: Path) -> None:
    """Work in the student's folder, and import nothing of who grades but what is installed."""
    installed = Path(torch.__file__).parents[1]
    hidden = {Path.cwd(), COURSE.parents[2]} - {installed}
    sys.path = [entry for entry in sys.path if Path(entry).resolve() not in hidden]
    os.chdir(file.parents[1])


def judge_apart(name: str, check: ModuleType, file: Path, avoid: list[str]) -> tuple[Outcome, bool]:
    """(the outcome of a property, whether a limit was reached), tested in a copy of this process."""

    def test() -> Any:
        _leave_here(file)
        return judge(name, check, file, avoid)[1:]

    ended = run_apart(test)
    if ended.report is None:
        return Outcome(name, False, ended.reason), ended.was_stopped
    outcome = Outcome(name, *ended.report)
    return outcome, outcome.suggestion == ADVICE[OutOfTime]


def outcomes(check: str, file: Path, avoid: list[str]) -> Iterator[Outcome]:
    """Each property's outcome, up to the first that takes too long."""
    module = load(check, "the checks")  # a name that a student's import cannot have
    for name in (READ, *checks(check)):
        outcome, was_stopped = judge_apart(name, module, file, avoid)
        yield outcome
        if was_stopped or (name == READ and not outcome.holds):
            return


def _end(*_: object) -> None:
    raise SystemExit(1)


def main() -> None:
    """Print every outcome as one line of JSON as soon as it is known, and END after the last."""
    check, path, *avoid = sys.argv[1:]
    signal.signal(signal.SIGTERM, _end)
    torch.set_num_threads(1)  # a copy has none of the other threads
    for outcome in outcomes(check, Path(path).resolve(), avoid):
        print(json.dumps(outcome), flush=True)
    print(END)


if __name__ == "__main__":
    main()
