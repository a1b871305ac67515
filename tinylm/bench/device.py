"""Measuring on a device: waiting for its work, using one thread, peak memory."""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch

MIB = 1 << 20
_STEP = "the step that is measured"


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished all work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: torch's profiler sees only the thread that started it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def peak_mib(
    step: Callable[[], object],
    device: torch.device,
    before: Callable[[], object] = lambda: None,
) -> float:
    """Peak memory of one step() in MiB above what was allocated at its start.

    On CUDA, torch's allocator counts. On the CPU it is the running sum of the allocations and
    releases that torch's profiler records, with one thread. The profiler misses the release of
    memory allocated before it started. So `before()` must allocate what step() releases, such as
    old gradients; it is recorded, but not counted. Do not time the same run: recording is slow.
    """
    if device.type == "cuda":
        before()
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        start = torch.cuda.memory_allocated(device)
        step()
        torch.cuda.synchronize(device)
        return (torch.cuda.max_memory_allocated(device) - start) / MIB
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it prints a line at each start and stop
    with one_thread(), torch.autograd.profiler.profile(profile_memory=True) as profiler:
        before()
        with torch.autograd.profiler.record_function(_STEP):
            pass  # an event that marks the start of the step
        step()
    recorded: Any = profiler.kineto_results
    events = recorded.events()
    begins = next(event.start_ns() for event in events if event.name() == _STEP)
    changes = sorted(
        (event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"
    )
    step_changes = (size for when, size in changes if when >= begins)
    return max(itertools.accumulate(step_changes, initial=0)) / MIB
