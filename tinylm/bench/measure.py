"""What the benches share: a setting in a process of its own, peak memory, median times.

Processes are forked from a server that has imported what they need and done nothing else: as clean as a new
interpreter, without its two seconds.
"""

import itertools
import multiprocessing
import os
import signal
import statistics
import time
import traceback
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from typing import Any

from tinylm.base.config import InputError
from tinylm.host.command import is_out_of_memory

MIB = 1 << 20
OOM = "oom"
KILLED = "its process was killed (signal 9; too little memory, or somebody ended it)"
_STEP = "the step that is measured"
_DONE, _BAD_INPUT, _FAILED = "done", "bad input", "failed"


def start_server(module: str) -> None:
    """Start the server that forks the processes; it imports `module` while the caller goes on. Once is enough."""
    from multiprocessing import forkserver

    multiprocessing.get_context("forkserver").set_forkserver_preload(
        ["torch", module]
    )  # the server passes over what it cannot import
    forkserver.ensure_running()


def in_own_process(function: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """function(*args) in a fresh process: its dict, or {"error": "oom" | what happened} where it failed or died.

    `function` stands at the top of a module, arguments and result are pickled. InputError passes through. Out of
    memory is "oom".
    """
    start_server(function.__module__)
    context = multiprocessing.get_context("forkserver")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(function, args, sender), daemon=True)
    try:
        process.start()
        sender.close()
        try:
            kind, answer = receiver.recv()
        except (EOFError, OSError):
            process.join()
            killed = process.exitcode == -signal.SIGKILL
            kind, answer = _FAILED, KILLED if killed else f"its process ended with exit code {process.exitcode}"
    finally:
        if process.is_alive():
            process.kill()
        receiver.close()
    if kind == _BAD_INPUT:
        raise InputError(answer)
    return answer if kind == _DONE else {"error": answer}


def run_tasks(
    function: Callable[..., dict[str, Any]], tasks: Iterable[tuple[dict[str, Any], Any]], figures: Callable[[dict], str]
) -> list[dict[str, Any]]:
    """function(task) of each task in a process of its own, one after the other.

    Tasks are pairs of what is known of a setting (its name under "setting") and the task. The results hold both that
    and the answer; what `figures` says of each is printed.
    """
    results = []
    for known, task in tasks:
        results.append(known | in_own_process(function, task))
        print(f"{known['setting']}: {results[-1].get('error') or figures(results[-1])}", flush=True)
    return results


def _answer(function: Callable[..., dict[str, Any]], args: tuple, pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, and the parent ends this process
    try:
        answer: tuple[str, Any] = (_DONE, function(*args))
    except InputError as error:
        answer = (_BAD_INPUT, str(error))
    except Exception as error:
        if os.environ.get("TINYLM_DEBUG") == "1":
            traceback.print_exc()
        answer = (_FAILED, OOM if is_out_of_memory(error) else f"{type(error).__name__}: {error}")
    pipe.send(answer)


def synchronize(device: Any) -> None:
    """Wait until the device has done what it was asked for."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


def median_seconds(step: Callable[[], object], *, repeats: int, device: Any, warm_up: int = 1) -> float:
    """Median wall time of step() in seconds over `repeats` runs, after `warm_up` that do not count."""
    times = []
    for number in range(warm_up + repeats):
        synchronize(device)
        start = time.perf_counter()
        step()
        synchronize(device)
        if number >= warm_up:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def peak_mib(step: Callable[[], object], device: Any, before: Callable[[], object] = lambda: None) -> float | None:
    """Peak of the allocator during one step(), in MiB above what was allocated when it began; None: not measured.

    On CUDA the allocator's own counter; on the CPU the running sum of the allocations and releases that torch's
    profiler records. It does not see the release of what was allocated before it started: what step() releases
    (old gradients) must be allocated by `before()`, which is recorded too and counts as there from the start. Time
    nothing in the same run: recording is slow.
    """
    import torch

    if device.type == "cuda":
        before()
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        start = torch.cuda.memory_allocated(device)
        step()
        torch.cuda.synchronize(device)
        return (torch.cuda.max_memory_allocated(device) - start) / MIB
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it prints a line at each start and stop
    with torch.autograd.profiler.profile(profile_memory=True) as profiler:
        before()
        with torch.autograd.profiler.record_function(_STEP):
            step()
    events = profiler.kineto_results.events() if profiler.kineto_results else []
    begins = next((event.start_ns() for event in events if event.name() == _STEP), 0)
    sizes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    totals = itertools.accumulate((size for when, size in sizes if when >= begins), initial=0)
    return max(totals) / MIB if sizes else None
