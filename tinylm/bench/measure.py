"""What the benches share: settings, one process per setting, peak memory, median times, tables.

Processes are forked from a server that has only imported modules. They are as clean as a new
interpreter, but start sooner. Only functions import torch here, so `tinylm check` stays fast."""

import contextlib
import dataclasses
import itertools
import multiprocessing
import os
import statistics
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any

from tinylm.base.command import CommandFailed, is_out_of_memory
from tinylm.base.config import InputError, setting
from tinylm.base.processes import begin_worker, ctrl_c_later

TRIALS = 2  # of each setting, in turn with the others
PROMPT_TOKENS = 5  # length of each prompt


@dataclass(frozen=True, kw_only=True)
class BeamBenchSettings:
    """Section `beam_bench`.

    cache: decode with the KV cache. stop_at_eos: end timed texts at <eos>. length_penalty: alpha
    in beam search's score, log_prob / length ** alpha.
    """

    widths: tuple[int, ...] = setting(low=1, high=100_000, length=1)
    prompts: int = setting(low=1, high=100_000)
    new_tokens: int = setting(low=1, high=100_000)
    cache: bool = setting()
    stop_at_eos: bool = setting()
    length_penalty: float = setting(low=0.0, high=10.0)


@dataclass(frozen=True, kw_only=True)
class KvBenchSettings:
    """Section `kv_bench`."""

    batch: int = setting(low=1, high=100_000)
    lengths: tuple[int, ...] = setting(low=2, high=100_000, length=1)


@dataclass(frozen=True, kw_only=True)
class AccumSettings:
    """Section `accum_sweep`."""

    settings: tuple[int, ...] = setting(low=1, high=100_000, length=1)
    batch_size: int = setting(low=1, high=1_000_000)
    stories: int | None = setting(low=1)
    tokens: int = setting(low=1)

    def problems(self) -> list[str]:
        """Rules between fields: each setting divides the largest, so all end at the same token."""
        largest = max(self.settings)
        if any(largest % number for number in self.settings):
            expected = f"divisors of the largest, {largest}"
            return [f"settings: expected {expected}, got {list(self.settings)}"]
        return []


@dataclass(frozen=True, kw_only=True)
class CkptBenchSettings:
    """Section `ckpt_bench`."""

    updates: int = setting(low=1, high=100_000)
    batch_size: int = setting(low=1, high=1_000_000)


@dataclass(frozen=True, kw_only=True)
class SeedSettings:
    """Section `seeds`: the seeds that are trained in addition to `train.seed`."""

    more: tuple[int, ...] = setting(low=0)

    def problems(self) -> list[str]:
        """Rules between the fields."""
        if len(set(self.more)) < len(self.more):
            return [f"more: expected different seeds, got {list(self.more)}"]
        return []


MIB = 1 << 20
OOM = "oom"
_STEP = "the step that is measured"


def in_own_process(function: Callable[[Any], Any], task: Any) -> Any:
    """function(task), computed in a new process; {"error": reason} if it failed.

    The reason is "oom" if memory ran out. `function` must be defined at the top level of a module;
    task and result are pickled. Raises InputError if the function does.
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
    """Send function(task), its InputError, or {"error": reason}."""
    begin_worker()
    try:
        answer = function(task)
    except InputError as error:
        answer = error
    except Exception as error:
        if os.environ.get("TINYLM_DEBUG") == "1":
            traceback.print_exc()
        reason = OOM if is_out_of_memory(error) else f"{type(error).__name__}: {error}"
        answer = {"error": reason}
    pipe.send(answer)


def _result(process: Any, receiver: Connection) -> Any:
    """Wait for the answer of a process, then end the process."""
    try:
        answer = receiver.recv()
    except (EOFError, OSError):
        process.join()
        code = process.exitcode
        answer = {"error": f"its process ended with exit code {code} (-9: killed or out of memory)"}
    process.kill()  # instead of waiting until it has tidied up
    receiver.close()
    if isinstance(answer, InputError):
        raise answer
    return answer


@dataclass(frozen=True)
class Bench:
    """How a bench measures a task, and what it reports.

    measure: called in a process of its own; returns only the times if `task.only_times`.
    conditions, times, memory: the keys of a row of results.
    A task is a dataclass with `only_times` and `columns`: its name ("setting") and conditions.
    """

    measure: Callable[[Any], dict[str, Any]]
    conditions: tuple[str, ...]
    times: tuple[str, ...]
    memory: tuple[str, ...] = ()

    def rows(self, results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The rows for a JSON file, in six digits; KEY of a time is its median, low_KEY and high_KEY its range."""
        keys = list(self.conditions)
        for time_key in self.times:
            keys += [time_key, f"low_{time_key}", f"high_{time_key}"]
        keys += self.memory
        return [{key: _six_digits(result[key]) for key in keys} for result in results]


def _six_digits(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def run_trials(
    bench: Bench, tasks: Sequence[Any]
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Run `TRIALS` interleaved trials of every task; print the first ones.

    Interleaving makes other work on the machine affect all settings alike. A result has the task's
    columns and what the first trial measured. Each time is the median over trials, with the lowest
    as low_KEY and the highest as high_KEY. Returns `split_failures` of the results.
    """
    answers_by_task: list[list[dict[str, Any]]] = []
    for task in tasks:
        answer = in_own_process(bench.measure, task)
        answers_by_task.append([answer])
        print(f"{task.columns['setting']}: {_in_words(answer)}", flush=True)
    for trial in range(2, TRIALS + 1):
        print(f"times, trial {trial} of {TRIALS}", flush=True)
        for task, answers in zip(tasks, answers_by_task, strict=True):
            if "error" not in answers[-1]:
                again = dataclasses.replace(task, only_times=True)
                answers.append(in_own_process(bench.measure, again))
    results = []
    for task, answers in zip(tasks, answers_by_task, strict=True):
        if "error" in answers[-1]:
            results.append(task.columns | answers[-1])
        else:
            results.append(task.columns | answers[0] | _spread(answers, bench.times))
    return split_failures(results)


def _in_words(answer: Mapping[str, Any]) -> str:
    if "error" in answer:
        return str(answer["error"])
    peak = f", peak {answer['peak_mib']:.1f} MiB" if "peak_mib" in answer else ""
    return f"{answer['tokens_per_s']:,.0f} tokens/s{peak}"


def _spread(answers: Sequence[dict[str, Any]], times: Sequence[str]) -> dict[str, float]:
    spread: dict[str, float] = {}
    for key in times:
        values = [answer[key] for answer in answers]
        spread[key] = statistics.median(values)
        spread[f"low_{key}"] = min(values)
        spread[f"high_{key}"] = max(values)
    return spread


def synchronize(device: Any) -> None:
    """Wait until the device has finished all work."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: torch's profiler sees only the thread that started it."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def peak_mib(
    step: Callable[[], object],
    device: Any,
    before: Callable[[], object] = lambda: None,
) -> float:
    """Peak memory of one step() in MiB above what was allocated at its start.

    On CUDA, torch's allocator counts. On the CPU it is the running sum of the allocations and
    releases that torch's profiler records, with one thread. The profiler misses the release of
    memory allocated before it started. So `before()` must allocate what step() releases, such as
    old gradients; it is recorded, but not counted. Do not time the same run: recording is slow.
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


def split_failures(
    results: Iterable[dict[str, Any]],
) -> tuple[list[dict], list[dict[str, str]]]:
    """(results without an error, {"setting", "figure", "reason"} of those with one).

    Raises CommandFailed if nothing was measured.
    """
    measured = []
    failed = []
    for result in results:
        if "error" in result:
            reason = result["error"]
            failed.append({"setting": result["setting"], "figure": "all", "reason": reason})
        else:
            measured.append(result)
    if failed and not measured:
        raise CommandFailed(
            f"nothing could be measured; {failed[0]['setting']}: {failed[0]['reason']}"
        )
    return measured, failed


SHOWN = {"bleu4": "bleu", "tokens_per_s": "tokens/s"}  # names of `dvc metrics show`


def shown(
    folder: str, rows: Mapping[Any, Mapping[str, Any]], *keys: str
) -> dict[str, dict[str, Any]]:
    """The rows of `dvc metrics show`, FOLDER/NAME with these keys; None for what was not measured."""
    return {
        f"{folder}/{name}": {SHOWN.get(key, key): row.get(key) for key in keys}
        for name, row in rows.items()
    }
