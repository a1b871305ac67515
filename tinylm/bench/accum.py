"""Gradient accumulation: the training runs of the sweep and their summary."""

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from tinylm.base import paths
from tinylm.base.command import CommandFailed
from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.machine import pick_device
from tinylm.base.runtime import RuntimeSettings
from tinylm.bench import measure
from tinylm.bench.measure import AccumSettings
from tinylm.bench.training import Task, fresh, short, train_store, train_task
from tinylm.decoding.texts import banned_ids
from tinylm.model.settings import ModelSettings
from tinylm.train.preparation import training_batches
from tinylm.train.settings import TrainSettings
from tinylm.train.trainer import accumulate_gradients
from tinylm.vocab.batches import Batch, TrainBatches
from tinylm.vocab.prompts import Prompt, choose_prompts
from tinylm.vocab.rows import check_rows
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

CONTEXT = 32  # tokens of a row at most, where rows are single stories
HELD_OUT_ROWS = 96  # scored in each validation, rounded up to whole mini-batches
PROMPTS = 50  # evaluation stories that each trained model continues, for BLEU
NEW_TOKENS = 25  # of a continuation: with the prompt it fits the shortened context
COSTS = ("tokens_per_s", "update_s", "epoch_s", "peak_mib")


def shortened(model: ModelSettings, layout: str) -> ModelSettings:
    """The model for rows of at most `CONTEXT` tokens; packed windows keep the model's context.

    Short rows of stories make updates cheap, so that the budget holds more of them.
    """
    if layout != "stories":
        return model
    return dataclasses.replace(model, context=min(CONTEXT, model.context))


def sweep_batches(
    sweep: AccumSettings, model: ModelSettings, train: TrainSettings, pad_id: int
) -> TrainBatches:
    """The mini-batches of every setting. Raises InputError if the stories have no row."""
    settings = short(train, batch_size=sweep.batch_size)
    rows = shortened(model, train.layout)
    return training_batches(rows, settings, train_store(sweep.stories), pad_id)


def check_sweep(
    sweep: AccumSettings, model: ModelSettings, train: TrainSettings, pad_id: int
) -> None:
    """Raise InputError unless sweep.tokens allows one update of the largest setting."""
    largest = max(sweep.settings)
    rows = shortened(model, train.layout)
    check_rows(train_store(sweep.stories), train.layout, rows.context)
    if sweep.tokens >= largest * sweep.batch_size * rows.context:
        return  # also enough for full rows, so the batches need not be made
    needed = sweep_batches(sweep, model, train, pad_id).tokens_of(largest)
    if sweep.tokens < needed:
        raise InputError(
            f"{PARAMS_FILE}: accum_sweep.tokens: expected at least {needed}, one update of "
            f"{largest} mini-batches, got {sweep.tokens}"
        )


def plan_updates(batches: TrainBatches, sweep: AccumSettings) -> int:
    """How many updates of the largest setting fit into sweep.tokens.

    Every setting trains on the mini-batches of these. All settings divide the largest, so all end
    at the same token.
    """
    largest = max(sweep.settings)
    updates = 0
    while batches.tokens_of((updates + 1) * largest) <= sweep.tokens:
        updates += 1
    return updates


def story_prompts(tokenizer: Tokenizer) -> list[Prompt]:
    """The first words of evaluation stories, each with the story's own next words."""
    store = TokenStore(paths.TOKENS, "evaluation")
    return choose_prompts(
        store, PROMPTS, measure.PROMPT_TOKENS, NEW_TOKENS, sos_id=tokenizer.sos_id
    )


def make_tasks(
    sweep: AccumSettings,
    model: ModelSettings,
    train: TrainSettings,
    tokenizer: Tokenizer,
    runtime: RuntimeSettings,
) -> list[Task]:
    """One training run for each setting, all validated after the same number of updates.

    Raises InputError if sweep.tokens is too small for one update.
    """
    pad_id = tokenizer.pad_id
    check_sweep(sweep, model, train, pad_id)
    prompts = [prompt.ids for prompt in story_prompts(tokenizer)]
    updates = plan_updates(sweep_batches(sweep, model, train, pad_id), sweep)
    model = shortened(model, train.layout)
    tasks = []
    for number in sorted(sweep.settings):
        settings = short(
            train, accumulation=number, batch_size=sweep.batch_size, validate_every=updates
        )
        task = Task(
            columns={"setting": f"accumulation {number}", "accumulation": number},
            mini_batches=updates * max(sweep.settings),
            held_out_rows=HELD_OUT_ROWS,
            stories=sweep.stories,
            model=model,
            train=settings,
            pad_id=pad_id,
            runtime=runtime,
            prompts=prompts,
            new_tokens=NEW_TOKENS,
            eos_id=tokenizer.eos_id,
            banned=banned_ids(tokenizer),
        )
        tasks.append(task)
    return tasks


def train_all(tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
    """What `train_task` returns for each setting, or its error; prints a line when one is done.

    A step of a few rows gains little from a second thread. So on a CPU each run has one thread, and
    as many go in parallel as there are threads. On a CUDA card they run one after another.
    """
    runtime = tasks[0].runtime
    together = 1
    if pick_device(runtime.device).type == "cpu":
        together = runtime.threads
        one_thread = dataclasses.replace(runtime, threads=1)
        tasks = [dataclasses.replace(task, runtime=one_thread) for task in tasks]
    results = measure.in_own_processes(train_task, tasks, together)
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


def gradient_difference(task: Task) -> dict[str, float]:
    """How far the gradient of two mini-batches is from that of one batch with their rows.

    The largest difference of two entries, relative to the largest entry. It is in fp32 and without
    dropout, which would draw other numbers.
    """
    run = fresh(task)
    model = run.model.eval()
    pair = [run.batches.batch(0), run.batches.batch(1)]
    gradients = []
    for batches in (pair, [_joined(pair)]):
        model.zero_grad(set_to_none=True)
        accumulate_gradients(model, batches, "fp32")
        parts = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        gradients.append(torch.cat(parts))
    accumulated, whole = gradients
    largest = (accumulated - whole).abs().max() / whole.abs().max()
    return {"gradient_difference": largest.item()}


def _joined(batches: Sequence[Batch]) -> Batch:
    """One batch with the rows of all, padded to the longest row."""
    width = max(batch.inputs.shape[1] for batch in batches)
    padded = [batch.padded(len(batch.inputs), width) for batch in batches]
    inputs = torch.cat([batch.inputs for batch in padded])
    targets = torch.cat([batch.targets for batch in padded])
    return Batch(inputs, targets, sum(batch.tokens for batch in batches))


def mean_bleu(run: Mapping[str, Any], tokenizer: Tokenizer) -> float | None:
    """The mean BLEU of the run's continuations; None if no evaluation story is long enough."""
    from tinylm.evaluate.bleu import Bleu  # takes seconds to import

    references = [tokenizer.decode(prompt.reference) for prompt in story_prompts(tokenizer)]
    texts = [tokenizer.decode(ids) for ids in run["texts"]]
    scores = Bleu().compute(predictions=texts, references=references)["sentence_bleu"]
    return float(scores.mean()) if texts else None


def merge(runs: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """data/figures/accum_sweep.json: losses at equal tokens and updates. runs: by accumulation.

    equal_updates: the number of updates of the setting that makes the fewest.
    """
    compared = min(run["updates"] for run in runs.values())
    table = {}
    for accumulation, run in runs.items():
        losses = {update: nats for update, _, nats in run["held_out"]}
        table[accumulation] = {
            "updates": run["updates"],
            "held_out_loss_at_equal_tokens": run["held_out"][-1][2],
            "held_out_loss_at_equal_updates": losses[compared],
        }
    budget = next(iter(runs.values()))["curve"][-1][1]
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
