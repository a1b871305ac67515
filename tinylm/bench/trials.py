"""The trials of a bench: each setting is measured several times, each time in its own process.

Processes are forked from a server that has only imported modules. They are as clean as a new
interpreter, but start sooner. This file imports no torch, so `tinylm check` stays fast.
"""

import dataclasses
import multiprocessing
import os
import statistics
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any, Generic, Protocol, TypeVar

from tinylm.base.command import CommandFailed, is_out_of_memory
from tinylm.base.config import InputError
from tinylm.base.processes import begin_worker, ctrl_c_later
from tinylm.run.benches import NotMeasured

TRIALS = 2  # of each setting, in turn with the others
OOM = "oom"  # the reason of a failure that was caused by lack of memory


@dataclass(frozen=True)
class Failure:
    """Why a process gave no answer: `OOM`, or the error."""

    reason: str

    def __str__(self) -> str:
        return self.reason


class Task(Protocol):
    """What a process needs to measure one setting: a dataclass that can be pickled."""

    @property
    def name(self) -> str:
        """The setting, in words."""


class Measurement(Protocol):
    """What one trial measures; its str() is printed."""

    @property
    def times(self) -> Any:
        """Numbers that vary from trial to trial; for `Trials.times_row`, in a dataclass."""


TaskT = TypeVar("TaskT", bound=Task)
MeasurementT = TypeVar("MeasurementT", bound=Measurement)


@dataclass(frozen=True)
class Trials(Generic[TaskT, MeasurementT]):
    """The measurements of one setting.

    first: what the first trial measured. times: those of all trials.
    """

    task: TaskT
    first: MeasurementT
    times: Sequence[Any]

    def times_row(self) -> dict[str, float]:
        """Median (KEY), smallest (low_KEY) and largest (high_KEY) of each time, to six significant digits."""
        return spread(self.times)


def spread(trials: Sequence[Any]) -> dict[str, float]:
    """As `Trials.times_row`. trials: what each trial measured, dataclasses of numbers."""
    row = {}
    for field in dataclasses.fields(trials[0]):
        values = [getattr(times, field.name) for times in trials]
        row[field.name] = six_digits(statistics.median(values))
        row[f"low_{field.name}"] = six_digits(min(values))
        row[f"high_{field.name}"] = six_digits(max(values))
    return row


def six_digits(value: float) -> float:
    """A measured number, rounded to six significant digits for JSON files."""
    return float(f"{value:.6g}")


def run_trials(
    tasks: Sequence[TaskT],
    measure: Callable[[TaskT], MeasurementT],
    measure_times: Callable[[TaskT], Any],
) -> tuple[list[Trials[TaskT, MeasurementT]], list[NotMeasured]]:
    """Run `TRIALS` interleaved trials of every task; print what the first ones measure.

    Interleaving makes other work on the machine affect all settings alike. The first trial calls
    measure(task), the others only measure_times(task). Raises CommandFailed if nothing could be
    measured.
    """
    firsts: list[Any] = []
    answers_by_task: list[list[Any]] = []  # the times of each trial, or a failure
    for task in tasks:
        first = in_own_process(measure, task)
        print(f"{task.name}: {first}", flush=True)
        firsts.append(first)
        is_failure = isinstance(first, Failure)
        answers_by_task.append([first if is_failure else first.times])
    for trial in range(2, TRIALS + 1):
        print(f"times, trial {trial} of {TRIALS}", flush=True)
        for task, answers in zip(tasks, answers_by_task, strict=True):
            if not isinstance(answers[-1], Failure):
                answers.append(in_own_process(measure_times, task))
    outcomes: list[Trials[TaskT, MeasurementT] | Failure] = []
    for task, first, answers in zip(tasks, firsts, answers_by_task, strict=True):
        if isinstance(answers[-1], Failure):
            outcomes.append(answers[-1])
        else:
            outcomes.append(Trials(task, first, answers))
    return split_failures(tasks, outcomes)


def split_failures(
    tasks: Sequence[TaskT], outcomes: Iterable[Trials[TaskT, MeasurementT] | Failure]
) -> tuple[list[Trials[TaskT, MeasurementT]], list[NotMeasured]]:
    """(the outcomes that are `Trials`, the settings whose outcome is a `Failure`).

    Raises CommandFailed if nothing could be measured.
    """
    measured = []
    failed = []
    for task, outcome in zip(tasks, outcomes, strict=True):
        if isinstance(outcome, Failure):
            failed.append(NotMeasured(task.name, "all", outcome.reason))
        else:
            measured.append(outcome)
    if failed and not measured:
        raise CommandFailed(f"nothing could be measured; {failed[0].setting}: {failed[0].reason}")
    return measured, failed


def in_own_process(function: Callable[[Any], Any], task: Any) -> Any:
    """function(task), computed in a new process; a `Failure` if it failed.

    `function` must be defined at the top level of a module; task and result are pickled. Raises
    InputError if the function does.
    """
    return _result(*_started(function, task))


def in_own_processes(
    function: Callable[[Any], Any], tasks: Sequence[Any], together: int
) -> Iterator[Any]:
    """`in_own_process` for each task, in order; `together` run at a time."""
    running: deque[tuple[Any, Connection]] = deque()
    for task in tasks:
        if len(running) == together:
            yield _result(*running.popleft())
        running.append(_started(function, task))
    while running:
        yield _result(*running.popleft())


def _started(function: Callable[[Any], Any], task: Any) -> tuple[Any, Connection]:
    """(a new process that calls function(task), the pipe that receives its answer)."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", function.__module__])  # skips what it cannot import
    with ctrl_c_later():
        forkserver.ensure_running()
    receiver, sender = context.Pipe(duplex=False)
    # daemon: it ends with this process
    process = context.Process(target=_answer, args=(function, task, sender), daemon=True)
    process.start()
    sender.close()
    return process, receiver


def _answer(function: Callable[[Any], Any], task: Any, pipe: Connection) -> None:
    """Send function(task), its InputError, or a `Failure`."""
    begin_worker()
    try:
        answer = function(task)
    except InputError as error:
        answer = error
    except Exception as error:
        if os.environ.get("TINYLM_DEBUG") == "1":
            traceback.print_exc()
        reason = OOM if is_out_of_memory(error) else f"{type(error).__name__}: {error}"
        answer = Failure(reason)
    pipe.send(answer)


def _result(process: Any, receiver: Connection) -> Any:
    """Wait for the answer of a process, then end the process."""
    try:
        answer = receiver.recv()
    except (EOFError, OSError):
        process.join()
        cause = " (killed or out of memory)" if process.exitcode == -9 else ""
        answer = Failure(f"its process ended with exit code {process.exitcode}{cause}")
    process.kill()  # instead of waiting until it has tidied up
    receiver.close()
    if isinstance(answer, InputError):
        raise answer
    return answer
