"""What the benches share: settings, running each setting in its own process, peak memory, median times, tables.

Processes are forked from a server that has imported what they need and done nothing else: they are as clean as a new
interpreter, without its two seconds of start-up. Imports are light, because params.yaml is checked without torch."""

import itertools
import multiprocessing
import os
import signal
import statistics
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from tinylm.base.config import InputError, setting
from tinylm.host.command import CommandFailed, is_out_of_memory
from tinylm.host.workers import begin_worker, ctrl_c_later


@dataclass(frozen=True, kw_only=True)
class BeamBenchSettings:
    """Section `beam_bench`. cache: whether to decode with it; stop_at_eos: in the timed runs (texts always do)."""

    widths: tuple[int, ...] = setting(low=1, high=100_000, length=1)
    prompts: int = setting(low=1, high=100_000)
    prompt_tokens: int = setting(low=1, high=100_000)
    new_tokens: int = setting(low=1, high=100_000)
    cache: bool = setting()
    stop_at_eos: bool = setting()
    repeats: int = setting(low=1, high=1000)


@dataclass(frozen=True, kw_only=True)
class KvBenchSettings:
    """Section `kv_bench`."""

    batch: int = setting(low=1, high=100_000)
    prompt_tokens: int = setting(low=1, high=100_000)
    lengths: tuple[int, ...] = setting(low=2, high=100_000, length=1)
    repeats: int = setting(low=1, high=1000)


@dataclass(frozen=True, kw_only=True)
class AccumSettings:
    """Section `accum_sweep`."""

    settings: tuple[int, ...] = setting(low=1, high=100_000, length=1)
    batch_size: int = setting(low=1, high=1_000_000)
    stories: int | None = setting(low=1)
    tokens: int = setting(low=1)
    held_out_batches: int = setting(low=1, high=1_000_000)

    def problems(self) -> list[str]:
        """Rules between the fields: only divisors of the largest setting end at the same token as that one."""
        largest = max(self.settings)
        if any(largest % number for number in self.settings):
            return [
                f"settings = {list(self.settings)}; allowed: numbers that divide the largest, {largest}"
            ]
        return []


@dataclass(frozen=True, kw_only=True)
class CkptBenchSettings:
    """Section `ckpt_bench`."""

    depths: tuple[int, ...] = setting(low=1, high=1000, length=1)
    batch_size: int = setting(low=1, high=1_000_000)
    repeats: int = setting(low=1, high=1000)


@dataclass(frozen=True, kw_only=True)
class SeedSettings:
    """Section `seeds`: the seeds that are trained in addition to `train.seed`."""

    more: tuple[int, ...] = setting(low=0)

    def problems(self) -> list[str]:
        """Rules between the fields."""
        if len(set(self.more)) < len(self.more):
            return [f"more = {list(self.more)}; allowed: all different"]
        return []


MIB = 1 << 20
OOM = "oom"
KILLED = "its process was killed (signal 9; too little memory, or somebody ended it)"
_STEP = "the step that is measured"
_DONE, _BAD_INPUT, _FAILED = "done", "bad input", "failed"


def start_server(module: str) -> None:
    """Start the server that forks the processes; it imports `module` meanwhile. Starting it once is enough."""
    from multiprocessing import forkserver

    # the server skips what it cannot import
    multiprocessing.get_context("forkserver").set_forkserver_preload(["torch", module])
    with ctrl_c_later():
        forkserver.ensure_running()


def in_own_process(function: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """function(*args) in a fresh process: its dict, or {"error": "oom" | what happened} if it failed or died.

    `function` must be defined at the top of a module; arguments and result are pickled. InputError is raised here too.
    Running out of memory gives "oom".
    """
    start_server(function.__module__)
    context = multiprocessing.get_context("forkserver")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(function, args, sender), daemon=True)
    try:
        process.start()
        sender.close()
        kind, answer = _receive(receiver, process)
    finally:
        if process.is_alive():
            process.kill()
        receiver.close()
    if kind == _BAD_INPUT:
        raise InputError(answer)
    return answer if kind == _DONE else {"error": answer}


def _receive(receiver: Connection, process: Any) -> tuple[str, Any]:
    """(kind, answer) of a process, also if it ended without one."""
    try:
        kind, answer = receiver.recv()
    except (EOFError, OSError):
        process.join()
        if process.exitcode == -signal.SIGKILL:
            return _FAILED, KILLED
        return _FAILED, f"its process ended with exit code {process.exitcode}"
    return kind, answer


def run_trials(
    first: Callable[..., dict[str, Any]],
    again: Callable[..., dict[str, Any]],
    tasks: Sequence[tuple[dict[str, Any], Any]],
    *,
    times: Sequence[str],
    trials: int,
    describe: Callable[[dict], str],
) -> list[dict[str, Any]]:
    """first(task) of each task, then again(task) of all of them in turn, `trials` in all, each in its own process.

    Trials are interleaved, so that other work on the machine affects every setting alike. Tasks are pairs: columns of
    a setting (its name under "setting"), and the task. A result holds these columns and the first answer. For each key
    of `times`, which both functions return, it holds the median over trials, and the lowest and the highest as low_KEY
    and high_KEY. A setting that fails in a trial has an "error" instead. `describe` turns each first answer into the
    text that is printed.
    """
    results = []
    for columns, task in tasks:
        result = columns | in_own_process(first, task)
        results.append(result)
        print(f"{columns['setting']}: {result.get('error') or describe(result)}", flush=True)
    answers_by_task = [[result] for result in results]
    for trial in range(2, trials + 1):
        print(f"times, trial {trial} of {trials}", flush=True)
        for (_, task), answers in zip(tasks, answers_by_task, strict=True):
            if "error" not in answers[-1]:
                answers.append(in_own_process(again, task))
    for result, answers in zip(results, answers_by_task, strict=True):
        if "error" in answers[-1]:
            result["error"] = answers[-1]["error"]
        else:
            result.update(_over_trials(answers, times))
    return results


def with_spread(keys: Sequence[str]) -> list[str]:
    """Each key with those of its lowest and highest trial, as `run_trials` names them."""
    return [name for key in keys for name in (key, f"low_{key}", f"high_{key}")]


def _over_trials(answers: Sequence[dict[str, Any]], times: Sequence[str]) -> dict[str, float]:
    spread: dict[str, float] = {}
    for key in times:
        values = [trial[key] for trial in answers]
        spread |= {
            key: statistics.median(values),
            f"low_{key}": min(values),
            f"high_{key}": max(values),
        }
    return spread


def _answer(function: Callable[..., dict[str, Any]], args: tuple, pipe: Connection) -> None:
    begin_worker()
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


def median_seconds(
    step: Callable[[], object], *, repeats: int, device: Any, warm_up: int = 1
) -> float:
    """Median wall time of step() in seconds over `repeats` runs, after `warm_up` runs that do not count."""
    times = []
    for number in range(warm_up + repeats):
        synchronize(device)
        start = time.perf_counter()
        step()
        synchronize(device)
        if number >= warm_up:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def peak_mib(
    step: Callable[[], object],
    device: Any,
    before: Callable[[], object] = lambda: None,
) -> float | None:
    """Peak of the allocator during one step(), in MiB above what was allocated when it began; None if not measured.

    On CUDA this is the allocator's own counter; on the CPU it is the running sum of the allocations and releases that
    torch's profiler records. The profiler does not see the release of what was allocated before it started: what step()
    releases (old gradients) must be allocated by `before()`, which is recorded too and counts as there from the start.
    Do not time the same run: recording is slow.
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
            pass  # an event that shows where the step began
        step()
    recorded: Any = profiler.kineto_results
    events = recorded.events() if recorded else []
    begins = next((event.start_ns() for event in events if event.name() == _STEP), 0)
    sizes = sorted(
        (event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"
    )
    since = (size for when, size in sizes if when >= begins)
    return max(itertools.accumulate(since, initial=0)) / MIB or None


def split_failures(
    bench: str, results: Iterable[dict[str, Any]]
) -> tuple[list[dict], list[dict[str, str]]]:
    """(results that were measured, {"setting", "figure", "reason"} of those that carry "error").

    Raises CommandFailed if nothing was measured.
    """
    results = list(results)
    errors = {result["setting"]: result["error"] for result in results if "error" in result}
    failed = [
        {"setting": setting, "figure": "all", "reason": error} for setting, error in errors.items()
    ]
    if results and len(failed) == len(results):
        raise CommandFailed(
            f"{bench}: nothing could be measured; {failed[0]['setting']}: {failed[0]['reason']}"
        )
    return [result for result in results if "error" not in result], failed


def records(
    results: Iterable[dict[str, Any]], keys: Sequence[str], measures: Sequence[str]
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """(each result's keys and measures, to six digits, {"setting", "figure", "reason"} of each figure that is None)."""
    rows: list[dict[str, Any]] = []
    missing: list[dict[str, str]] = []
    for result in results:
        row = {key: result[key] for key in keys}
        for name in measures:
            if result[name] is None:
                reason = "the allocator recorded nothing"
                missing.append({"setting": result["setting"], "figure": name, "reason": reason})
            else:
                row[name] = float(f"{result[name]:.6g}")
        rows.append(row)
    return rows, missing
