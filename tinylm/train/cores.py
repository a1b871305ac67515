"""Work on several cores at once: one thread per core, each computing whole items alone.

torch divides every operation among its threads, and they wait for each other after each operation.
That is slow for small tensors, and even slower when another program occupies one of the cores.
"""

import contextlib
import heapq
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

# More threads would need more memory, and would wait for Python's global lock.
MAX_THREADS = 4

# One less, since the calling thread works too. They start when they are first needed.
_others = ThreadPoolExecutor(MAX_THREADS - 1)


def _forget_threads() -> None:
    """A forked process has the pool, but none of its threads, for which it would wait for ever."""
    global _others
    _others = ThreadPoolExecutor(MAX_THREADS - 1)


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_forget_threads)

_state = threading.local()  # is_busy: whether this thread computes an item

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores(device: torch.device, most: int = MAX_THREADS) -> int:
    """How many threads can share the work on a device: torch's threads on a CPU, at most `most`."""
    return min(torch.get_num_threads(), most) if device.type == "cpu" else 1


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Run torch in the calling thread alone, for tensors that are too small to be divided."""
    available = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(available)


def map_on_cores(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    count: int,
    size: Callable[[Item], float] = lambda item: 1.0,
) -> list[Result]:
    """function(item) of each item, in the items' order, on `count` cores (see `cores`).

    Items are divided by `size` before any is computed, so every run divides them in the same way.
    torch's threads are divided among the cores. Within an item, `map_on_cores` uses one thread.
    """
    shares = [share for share in _shares(items, count, size) if share]
    if len(shares) < 2 or getattr(_state, "is_busy", False):
        return [function(item) for item in items]
    available = torch.get_num_threads()

    def compute(share: list[int]) -> list[Result]:
        # It applies to this thread, and to threads that the caller starts meanwhile.
        torch.set_num_threads(max(1, available // len(shares)))
        _state.is_busy = True
        try:
            return [function(items[index]) for index in share]
        finally:
            _state.is_busy = False

    futures = [_others.submit(compute, share) for share in shares[1:]]
    try:
        own = compute(shares[0])  # `CoreShare` measures this thread, so it must work too
        computed = [own, *(future.result() for future in futures)]
    finally:
        torch.set_num_threads(available)
    results: dict[int, Result] = {}
    for share, of_share in zip(shares, computed, strict=True):
        results.update(zip(share, of_share, strict=True))
    return [results[index] for index in range(len(items))]


def _shares(items: Sequence[Item], count: int, size: Callable[[Item], float]) -> list[list[int]]:
    """Indices of the items for each core: largest first, each to the core with the least so far."""
    sizes = [size(item) for item in items]
    loads = [(0.0, core) for core in range(count)]
    shares: list[list[int]] = [[] for _ in loads]
    for index in sorted(range(len(items)), key=lambda index: -sizes[index]):
        load, core = loads[0]
        shares[core].append(index)
        heapq.heapreplace(loads, (load + sizes[index], core))
    return shares
