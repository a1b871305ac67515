"""Gradient accumulation: the runs of the sweep, with the training loop, and their summary."""

import dataclasses
import itertools
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.machine import pick_device
from tinylm.bench import measure
from tinylm.bench.measure import AccumSettings
from tinylm.host.command import CommandFailed
from tinylm.host.runtime import RuntimeSettings
from tinylm.model.settings import ModelSettings
from tinylm.train.graphs import new_trainer
from tinylm.train.loop import train
from tinylm.train.preparation import SPLITS, TrainingRun, new_run
from tinylm.train.trainer import Trainer, TrainSettings
from tinylm.vocab.batches import Batch, TrainBatches
from tinylm.vocab.token_store import TokenStore, load_matrix

CONTEXT = 32  # tokens of a row at most, where rows are single stories
HELD_OUT_ROWS = 96  # about so many rows are scored in each validation
TRIAL_UPDATES = 2  # a trial uses the mini-batches of this many updates of the largest setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """The inputs of one run in its own process; the data are those of the working directory."""

    accumulation: int
    sweep: AccumSettings
    model: ModelSettings
    train: TrainSettings
    runtime: RuntimeSettings
    pad_id: int
    only_times: bool = False

    @property
    def columns(self) -> dict[str, Any]:
        """The setting's name and number, for its row of results."""
        return {"setting": f"accumulation {self.accumulation}", "accumulation": self.accumulation}


def first_stories(store: TokenStore, count: int | None) -> TokenStore:
    """Cut the store to its first `count` stories; None keeps all."""
    if count is not None and count < len(store):
        store.offsets = store.offsets[: count + 1]
        store.ids = store.ids[: store.offsets[-1]]
    return store


def shortened(model: ModelSettings, layout: str) -> ModelSettings:
    """The model for rows of at most `CONTEXT` tokens; packed windows keep the model's context.

    Short rows of stories make updates cheap, so that the budget holds more of them.
    """
    if layout != "stories":
        return model
    return dataclasses.replace(model, context=min(CONTEXT, model.context))


def plan_budget(batches: TrainBatches, sweep: AccumSettings) -> tuple[int, int]:
    """Return (updates of the largest setting that fit into sweep.tokens, tokens of these updates).

    Every setting trains on these tokens. All settings divide the largest, so all end at the same
    token. Raises InputError if sweep.tokens is too small for one update.
    """
    largest = max(sweep.settings)
    updates = 0
    used = 0
    while True:
        tokens = sum(batches.batch(updates * largest + i).tokens for i in range(largest))
        if used + tokens > sweep.tokens:
            break
        updates += 1
        used += tokens
    if not updates:
        raise InputError(
            f"{PARAMS_FILE}: accum_sweep.tokens: expected at least {tokens}, one update of "
            f"{largest} mini-batches, got {sweep.tokens}"
        )
    return updates, used


def run_settings(task: Task, updates: int, budget: int) -> TrainSettings:
    """Section `train` with this run's accumulation, batch size and budget, without early stopping.

    updates: of the largest setting. Held-out loss is measured each time after this many.
    """
    settings = dataclasses.replace(
        task.train,
        accumulation=task.accumulation,
        batch_size=task.sweep.batch_size,
        processes=1,
        tokens=budget,
        epochs=None,
        validate_every=updates,
        patience=None,
        keep_epochs=(),
    )
    return settings.resolved(pick_device(task.runtime.device))


def fresh(task: Task) -> TrainingRun:
    """The initial weights of stage train, and mini-batches in an order that no setting changes."""
    stores = {split: TokenStore(paths.TOKENS, split) for split in SPLITS}
    stores["train"] = first_stories(stores["train"], task.sweep.stories)
    train = dataclasses.replace(task.train, batch_size=task.sweep.batch_size, processes=1)
    matrix = torch.from_numpy(load_matrix(paths.EMBEDDING))
    device = pick_device(task.runtime.device)
    return new_run(task.model, train, matrix, stores, task.pad_id, device, task.runtime.threads)


def measure_task(task: Task) -> dict[str, float]:
    """Speed and memory of one setting: of updates on the first mini-batches, without validation."""
    start = fresh(task)
    batches = start.batches
    device = start.model.embedding.device
    settings = run_settings(task, 1, task.sweep.tokens)
    trainer = new_trainer(start.model, batches, settings)
    chosen = [batches.batch(index) for index in range(TRIAL_UPDATES * max(task.sweep.settings))]
    steps = task.accumulation
    updates = [chosen[first : first + steps] for first in range(0, len(chosen), steps)]
    trainer.update(updates[0])  # warm-up
    measure.synchronize(device)
    begun = time.perf_counter()
    for update in updates:
        trainer.update(update)
    measure.synchronize(device)
    seconds = time.perf_counter() - begun
    tokens = sum(batch.tokens for batch in chosen)
    times = {
        "tokens_per_s": tokens / seconds,
        "update_s": seconds / len(updates),
        "epoch_s": batches.tokens_per_epoch * seconds / tokens,
    }
    if task.only_times:
        return times
    # the plain Trainer even on CUDA: a recorded graph allocates its memory only once
    peak = update_peak_mib(Trainer(start.model, batches, settings), device)
    return times | {"peak_mib": peak}


BENCH = measure.Bench(
    measure_task,
    conditions=("accumulation",),
    times=("tokens_per_s", "update_s", "epoch_s"),
    memory=("peak_mib",),
)


def train_all(tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
    """The curves of each setting (see `train_setting`), or its error; prints each when it is done.

    A step of a few rows gains little from a second thread. So on a CPU each run has one thread, and
    as many run together as there are threads. On a CUDA card they run one after another.
    """
    runtime = tasks[0].runtime
    together = 1
    if pick_device(runtime.device).type == "cpu":
        together = runtime.threads
        one_thread = dataclasses.replace(runtime, threads=1)
        tasks = [dataclasses.replace(task, runtime=one_thread) for task in tasks]
    results = measure.in_own_processes(train_setting, tasks, together)
    for task, result in zip(tasks, results, strict=True):
        name = task.columns["setting"]
        if result.get("error") not in (None, measure.OOM):
            raise CommandFailed(f"{name}: {result['error']}")
        if "error" in result:
            print(f"{name}: not measured: {result['error']}", file=sys.stderr)
        else:
            loss = result["held_out"][-1][2]
            print(f"{name}: held-out loss {loss:.4f} after {result['updates']} updates", flush=True)
        yield task.columns | result


def train_setting(task: Task) -> dict[str, Any]:
    """Train one setting; returns its curves, the same in every run.

    Every setting starts from the same weights and uses the same mini-batches. `curve` and `held_out`
    are lists of (updates, tokens, nats per token). The loss in `curve` is measured on the tokens of
    the update itself, before the weights change.
    """
    start = fresh(task)
    updates, budget = plan_budget(start.batches, task.sweep)
    held_out_batches = math.ceil(HELD_OUT_ROWS / task.sweep.batch_size)
    run = dataclasses.replace(
        start,
        held_out=lambda: itertools.islice(start.held_out(), held_out_batches),
        settings=run_settings(task, updates, budget),
    )
    result = train(run, label=f"{task.columns['setting']}: ")
    curves = result.curves
    updates_done = len(curves.tokens)
    numbers = range(1, updates_done + 1)
    return {
        "budget_tokens": budget,
        "compared_update": updates,
        "updates": updates_done,
        "curve": list(zip(numbers, curves.tokens, curves.train, strict=True)),
        "held_out": curves.held_out,
    }


def update_peak_mib(trainer: Trainer, device: torch.device) -> float:
    """Peak MiB of one update above weights, gradients and optimizer state.

    All mini-batches are the epoch's widest one, so settings differ only in their number.
    """
    epoch = (trainer.batches.batch(index) for index in range(len(trainer.batches)))
    widest = max(epoch, key=lambda batch: batch.inputs.numel())
    row = Batch(widest.inputs[:1], widest.targets[:1], int((widest.targets[:1] >= 0).sum()))
    update = [widest] * trainer.settings.accumulation
    trainer.model.zero_grad(set_to_none=True)
    return measure.peak_mib(lambda: trainer.update(update), device, lambda: trainer.update([row]))


def merge(runs: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """data/figures/accum_sweep.json: losses at equal tokens and updates. runs: by accumulation."""
    compared = runs[max(runs)]["compared_update"]
    table = {}
    for accumulation, run in runs.items():
        losses = {update: nats for update, _, nats in run["held_out"]}
        table[accumulation] = {
            "updates": run["updates"],
            "held_out_loss_at_equal_tokens": run["held_out"][-1][2],
            "held_out_loss_at_equal_updates": losses[compared],
        }
    budget = runs[min(runs)]["budget_tokens"]
    return {"budget_tokens": budget, "equal_updates": compared, "settings": table}


def curves(runs: Mapping[int, Mapping[str, Any]]) -> dict[str, list[tuple[int, str, float]]]:
    """Train loss of all runs: (x, series, nats per token), with x a micro-step, update or token."""
    axes: dict[str, list[tuple[int, str, float]]] = {"micro_step": [], "update": [], "tokens": []}
    for accumulation, run in runs.items():
        series = f"accumulation {accumulation}"
        for update, tokens, nats in run["curve"]:
            axes["micro_step"].append((update * accumulation, series, nats))
            axes["update"].append((update, series, nats))
            axes["tokens"].append((tokens, series, nats))
    return axes
