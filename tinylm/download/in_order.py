"""Work in pieces over several processes with results in order: any number of processes gives the same results.

In this room, not in `host`: results pass through it, so a stage that uses it depends on it.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, TypeVar

from tinylm.host.command import CommandFailed
from tinylm.host.memory import note_workers, own_peak_mib
from tinylm.host.workers import begin_worker, ctrl_c_later

Task = TypeVar("Task")
Result = TypeVar("Result")
AHEAD = 2  # tasks handed out per process: one in progress, one waiting


def _begin(prepare: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    begin_worker()
    if prepare is not None:
        prepare(*arguments)


def _measured(function: Callable[[Task], Result], task: Task) -> tuple[Result, int, float]:
    return function(task), os.getpid(), own_peak_mib()


def ahead(items: Iterator[Result]) -> Generator[Result, None, None]:
    """The same items, the next one made by a thread while one is used: for work that releases the GIL."""
    none: Any = object()
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, none)
        while (item := coming.result()) is not none:
            coming = pool.submit(next, items, none)
            yield item


@dataclass(frozen=True)
class _Failure:
    error: Exception


def _with_failure(tasks: Iterable[Task]) -> Iterator[Task | _Failure]:
    """The tasks, then the error that taking the next one raised, if any."""
    try:
        yield from tasks
    except Exception as error:
        yield _Failure(error)


def map_in_order(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    workers: int,
    prepare: Callable[..., None] | None = None,
    arguments: tuple[Any, ...] = (),
) -> Generator[Result, None, None]:
    """function(task) of each task, in order; `prepare(*arguments)` runs first, once in each process.

    With one worker everything runs here. Tasks are taken as they are needed, so few results wait. What `function`
    raises is raised here; what taking a task raises, after the results of all tasks before it. Raises CommandFailed if
    a worker was killed from outside.
    """
    if workers == 1:
        if prepare is not None:
            prepare(*arguments)
        yield from map(function, tasks)
        return
    waiting: deque[Future[tuple[Result, int, float]]] = deque()
    peaks: dict[int, float] = {}

    def oldest() -> Result:
        result, process, peak = waiting.popleft().result()
        peaks[process] = peak
        return result

    pool = ProcessPoolExecutor(workers, get_context("spawn"), _begin, (prepare, arguments))
    try:
        for task in _with_failure(tasks):
            if isinstance(task, _Failure):
                while waiting:
                    yield oldest()
                raise task.error
            with ctrl_c_later():
                waiting.append(pool.submit(_measured, function, task))
            if len(waiting) >= AHEAD * workers:
                yield oldest()
        while waiting:
            yield oldest()
    except BrokenProcessPool:
        raise CommandFailed(
            "a worker process was ended from outside (for want of memory?); lower runtime.workers"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)
        note_workers(sum(peaks.values()))
