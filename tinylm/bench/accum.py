"""Gradient accumulation: the runs of the sweep, with the training loop, and their summary."""

import dataclasses
import itertools
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.machine import pick_device
from tinylm.base.seeding import derive_seed, seed_everything
from tinylm.bench import measure
from tinylm.bench.measure import AccumSettings
from tinylm.host.command import CommandFailed
from tinylm.host.memory import own_peak_mib
from tinylm.host.runtime import RuntimeSettings
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.train.graphs import new_trainer
from tinylm.train.loop import train
from tinylm.train.preparation import prepare_process, training_model
from tinylm.train.trainer import Trainer, TrainSettings
from tinylm.vocab.batches import Batch, TrainBatches, scoring_batches
from tinylm.vocab.matrix_file import load_matrix
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import open_tokenizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """The inputs of one run in its own process."""

    accumulation: int
    sweep: AccumSettings
    model: ModelSettings
    train: TrainSettings
    pad_id: int
    embedding: str
    tokens: str
    device: str
    threads: int
    log_every_s: float


def first_stories(store: TokenStore, count: int | None) -> TokenStore:
    """Cut the store to its first `count` stories; None keeps all."""
    if count is not None and count < len(store):
        store.offsets = store.offsets[: count + 1]
        store.ids = store.ids[: store.offsets[-1]]
    return store


def plan_budget(batches: TrainBatches, sweep: AccumSettings) -> tuple[int, int]:
    """Return (updates of the largest setting that fit into sweep.tokens, tokens of these updates).

    Every setting trains on these tokens. All settings divide the largest, so all end at the same
    token. Raises InputError if sweep.tokens is too small for one update.
    """
    largest = max(sweep.settings)
    updates = used = 0
    while True:
        tokens = sum(batches.batch(updates * largest + i).tokens for i in range(largest))
        if used + tokens > sweep.tokens:
            break
        updates, used = updates + 1, used + tokens
    if not updates:
        raise InputError(
            f"{PARAMS_FILE}: accum_sweep.tokens = {sweep.tokens}; allowed: at least {tokens}, "
            f"one update of {largest} mini-batches"
        )
    return updates, used


def run_settings(task: Task, updates: int, budget: int) -> TrainSettings:
    """Section `train` with this run's accumulation, batch size and budget, without early stopping.

    dvc.yaml does not list the keys that are replaced here.

    updates: those of the largest setting; held-out loss is measured each time after this many.
    """
    return dataclasses.replace(
        task.train,
        accumulation=task.accumulation,
        batch_size=task.sweep.batch_size,
        processes=1,
        tokens=budget,
        epochs=None,
        stop_after=None,
        validate_every=updates,
        patience=None,
        keep_epochs=(),
    )


def fresh_model(task: Task) -> TinyLM:
    """A model with the initial weights of stage train, the same in every run."""
    seed_everything(derive_seed(task.train.seed, "train"), task.threads)
    matrix = torch.from_numpy(load_matrix(task.embedding))
    train = dataclasses.replace(task.train, batch_size=task.sweep.batch_size)
    device = pick_device(task.device)
    prepare_process(train.precision, device)
    return training_model(task.model, train, matrix, device)


TIMES = ("tokens_per_s", "update_s", "epoch_s")
MEMORY = ("peak_mib", "process_mib")
TRIALS = 3
TRIAL_UPDATES = 2  # updates of the largest setting whose mini-batches a trial uses
TAIL_TOKENS = 0.1  # the train loss is averaged over this last share of the budget


def make_task(
    accumulation: int,
    sweep: AccumSettings,
    model: ModelSettings,
    train: TrainSettings,
    runtime: RuntimeSettings,
) -> Task:
    """The task of one setting in the pipeline's folder."""
    return Task(
        accumulation=accumulation,
        sweep=sweep,
        model=model,
        train=train,
        pad_id=open_tokenizer(paths.TOKENIZER).pad_id,
        embedding=paths.EMBEDDING,
        tokens=paths.TOKENS,
        device=runtime.device,
        threads=runtime.threads,
        log_every_s=runtime.log_every_s,
    )


def _batches(task: Task) -> TrainBatches:
    """The mini-batches, in the same order in every setting."""
    store = first_stories(TokenStore(task.tokens, "train"), task.sweep.stories)
    order = derive_seed(task.train.seed, "order")
    return TrainBatches(
        store, task.train.layout, task.sweep.batch_size, task.model.context, task.pad_id, order
    )


def time_task(task: Task) -> dict[str, float]:
    """The times alone: a further trial."""
    return _speed(task, fresh_model(task), _batches(task))


def measure_task(task: Task) -> dict[str, float | None]:
    """Speed and memory of one setting: the first trial."""
    model, batches = fresh_model(task), _batches(task)
    speed = _speed(task, model, batches)
    process = own_peak_mib()
    # the plain Trainer even on CUDA: a recorded graph allocates its memory only once
    trainer = Trainer(model, batches, run_settings(task, 1, task.sweep.tokens))
    peak = update_peak_mib(trainer, model.embedding.device)
    return {**speed, "process_mib": process, "peak_mib": peak}


def _speed(task: Task, model: TinyLM, batches: TrainBatches) -> dict[str, float]:
    """The speed of updates on the first mini-batches, without validation."""
    steps = task.accumulation
    trainer = new_trainer(model, batches, run_settings(task, 1, task.sweep.tokens))
    chosen = [batches.batch(index) for index in range(TRIAL_UPDATES * max(task.sweep.settings))]
    updates = [chosen[first : first + steps] for first in range(0, len(chosen), steps)]
    trainer.update(updates[0])  # warm-up
    device = model.embedding.device
    measure.synchronize(device)
    start = time.perf_counter()
    for update in updates:
        trainer.update(update)
    measure.synchronize(device)
    seconds = time.perf_counter() - start
    tokens = sum(batch.tokens for batch in chosen)
    epoch_s = batches.tokens_per_epoch * seconds / tokens
    return {
        "tokens_per_s": tokens / seconds,
        "update_s": seconds / len(updates),
        "epoch_s": epoch_s,
    }


def run(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """Measure the settings in turn (see `measure.run_trials`), each result with its `accumulation`."""

    def speed(result: dict[str, Any]) -> str:
        return f"{result['tokens_per_s']:,.0f} tokens/s, peak {result['peak_mib'] or 0:.1f} MiB"

    named = [
        ({"setting": f"accumulation {task.accumulation}", "accumulation": task.accumulation}, task)
        for task in tasks
    ]
    return measure.run_trials(
        measure_task, time_task, named, times=TIMES, trials=TRIALS, describe=speed
    )


def train_all(tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
    """The curves of each setting (see `train_setting`), or its error; prints each when it is done.

    A step of a few rows gains little from a second thread. So on a CPU each run has one thread, and
    as many run together as there are threads. On a CUDA card they run one after another.
    """
    together = 1
    if pick_device(tasks[0].device).type == "cpu":
        together = tasks[0].threads
        tasks = [dataclasses.replace(task, threads=1) for task in tasks]
    results = measure.in_own_processes(train_setting, tasks, together)
    for task, result in zip(tasks, results, strict=True):
        name = f"accumulation {task.accumulation}"
        if result.get("error") not in (None, measure.OOM):
            raise CommandFailed(f"{name}: {result['error']}")
        if "error" in result:
            print(f"{name}: not measured: {result['error']}", file=sys.stderr)
        else:
            loss = result["held_out"][-1][3]
            print(f"{name}: held-out loss {loss:.4f} after {result['updates']} updates", flush=True)
        yield {"setting": name, "accumulation": task.accumulation, **result}


def train_setting(task: Task) -> dict[str, Any]:
    """Train one setting; returns its curves, the same in every run.

    Every setting starts from the same weights and uses the same mini-batches. A loss of the curve
    is that of the update's own tokens, before the update.
    """
    model = fresh_model(task)
    layout, rows, context = task.train.layout, task.sweep.batch_size, task.model.context
    batches = _batches(task)
    held_out = TokenStore(task.tokens, "held_out")
    updates, budget = plan_budget(batches, task.sweep)
    settings = run_settings(task, updates, budget)

    def held_out_batches():
        scored = scoring_batches(held_out, layout, rows, context, task.pad_id)
        return itertools.islice(scored, task.sweep.held_out_batches)

    label = f"accumulation {task.accumulation}: "
    result = train(
        model, batches, held_out_batches, settings, log_every_s=task.log_every_s, label=label
    )
    curves, steps = result.curves, task.accumulation
    return {
        "batch_size": rows,
        "budget_tokens": budget,
        "compared_update": updates,
        "updates": len(curves.updates),
        "micro_steps": len(curves.updates) * steps,
        "tokens": curves.tokens[-1],
        "curve": [
            [update * steps, update, tokens, nats]
            for update, tokens, nats in zip(
                curves.updates, curves.tokens, curves.train, strict=True
            )
        ],
        "held_out": [
            [update * steps, update, tokens, nats] for update, tokens, nats in curves.held_out
        ],
        "held_out_tokens": sum(batch.tokens for batch in held_out_batches()),
    }


def update_peak_mib(trainer: Trainer, device: torch.device) -> float | None:
    """Peak MiB of one update above weights, gradients and optimizer state; None if unknown.

    All mini-batches are the epoch's widest one, so settings differ only in their number.
    """
    epoch = (trainer.batches.batch(index) for index in range(len(trainer.batches)))
    widest = max(epoch, key=lambda batch: batch.inputs.numel())
    row = Batch(widest.inputs[:1], widest.targets[:1], int((widest.targets[:1] >= 0).sum()))
    update = [widest] * trainer.settings.accumulation
    trainer.model.zero_grad(set_to_none=True)
    return measure.peak_mib(lambda: trainer.update(update), device, lambda: trainer.update([row]))


def held_out_at(run: Mapping[str, Any], update: int) -> float:
    """Held-out loss of a run after `update`, in nats per token."""
    return next(nats for _, at, _, nats in run["held_out"] if at == update)


def tail_loss(run: Mapping[str, Any]) -> float:
    """Mean train loss over the last tenth of the tokens, for runs with any number of updates."""
    end = run["curve"][-1][2]
    tail = [nats for _, _, tokens, nats in run["curve"] if tokens > end * (1 - TAIL_TOKENS)]
    return sum(tail) / len(tail)


def merge(runs: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """data/figures/accum_sweep.json: losses at equal tokens and updates; runs: by accumulation."""
    update = runs[max(runs)]["compared_update"]
    table = {
        number: {
            "updates": run["updates"],
            "micro_steps": run["micro_steps"],
            "tokens": run["tokens"],
            "held_out_loss_at_equal_tokens": run["held_out"][-1][3],
            "held_out_loss_at_equal_updates": held_out_at(run, update),
            "tokens_at_equal_updates": next(
                tokens for _, at, tokens, _ in run["held_out"] if at == update
            ),
            "train_loss_last_tenth": tail_loss(run),
        }
        for number, run in runs.items()
    }
    first = runs[min(runs)]
    return {
        "batch_size": first["batch_size"],
        "budget_tokens": first["budget_tokens"],
        "equal_updates": update,
        "settings": table,
    }


def curves(runs: Mapping[int, Mapping[str, Any]]) -> dict[str, list[tuple[int, str, float]]]:
    """Train loss of all runs: (x, series, nats per token), with x a micro-step, update or token."""
    axes = ("micro_step", "update", "tokens")
    return {
        axis: [
            (point[column], f"accumulation {n}", point[3])
            for n, run in runs.items()
            for point in run["curve"]
        ]
        for column, axis in enumerate(axes)
    }


def costs(
    timed: Sequence[dict[str, Any]],
) -> tuple[dict[int, dict[str, Any]], list[dict[str, str]]]:
    """(time and memory of each setting, what was not measured), for data/times/accum_sweep.json.

    timed: results of `run`.
    """
    columns = (*measure.with_spread(TIMES), *MEMORY)
    rows, missing = measure.records(timed, ("accumulation",), columns)
    return {row.pop("accumulation"): row for row in rows}, missing
