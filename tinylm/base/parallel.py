"""Work in several processes with results in order: any number of processes gives the same results."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import get_context
from typing import Any, TypeVar

from tinylm.base.command import CommandFailed
from tinylm.base.processes import begin_worker, ctrl_c_later

Item = TypeVar("Item")
Result = TypeVar("Result")
PREFETCH = 2  # tasks handed out per process: one in progress, one waiting
INLINE_TASKS = 12  # done here before processes are started, which takes a second


def in_groups(items: Iterable[Item], size: int) -> Generator[list[Item], None, None]:
    """The items in lists of `size`, the last one shorter."""
    iterator = iter(items)
    while group := list(islice(iterator, size)):
        yield group


_shared: tuple[Any, ...] = ()  # in a worker: what every task gets


def _begin(shared: tuple[Any, ...]) -> None:
    global _shared
    begin_worker()
    _shared = shared


def _call(function: Callable[..., Result], task: Any) -> Result:
    return function(task, *_shared)


def map_in_order(
    function: Callable[..., Result], tasks: Iterable[Any], workers: int, *shared: Any
) -> Generator[Result, None, None]:
    """function(task, *shared) of each task, in order. Tasks are taken from the iterator as needed.

    The first INLINE_TASKS tasks are done here; with one worker all are. `shared` is sent to each worker
    once. What `function` raises is raised here. Raises CommandFailed if a worker was killed from
    outside.
    """
    remaining = iter(tasks)
    for task in islice(remaining, None if workers == 1 else INLINE_TASKS):
        yield function(task, *shared)
    first = list(islice(remaining, 1))
    if not first:
        return
    waiting: deque[Future[Result]] = deque()
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _begin, (shared,))
    try:
        for task in chain(first, remaining):
            with ctrl_c_later():
                waiting.append(pool.submit(_call, function, task))
            if len(waiting) >= PREFETCH * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise CommandFailed(
            "a worker process was killed (out of memory?); "
            "there is one per core: put `taskset -c 0,1` before the command to use two"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)
