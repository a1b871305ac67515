"""A short training run in its own process; accum_sweep and ckpt_bench compare several."""

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.utils import parameters_to_vector

from tinylm.base import paths
from tinylm.base.machine import pick_device
from tinylm.base.runtime import RuntimeSettings
from tinylm.bench import measure
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.train.loop import train
from tinylm.train.preparation import SPLITS, TrainingData, TrainingRun, new_run
from tinylm.train.trainer import Trainer, TrainSettings
from tinylm.vocab.batches import Batch
from tinylm.vocab.token_store import TokenStore, load_matrix

GREEDY = DecodeSettings(temperature=0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """One training run on the data of the working directory.

    columns: the setting's name and conditions, for its row of results. mini_batches: how many to
    train on, a multiple of `train.accumulation`. held_out_rows: about how many to score in
    each validation. stories: how many train stories to use, from the first; None for all. prompts:
    what the trained model continues by at most `new_tokens` tokens, greedily; `banned` ids do not occur.
    """

    columns: dict[str, Any]
    mini_batches: int
    held_out_rows: int = 1
    model: ModelSettings
    train: TrainSettings
    pad_id: int
    runtime: RuntimeSettings
    stories: int | None = None
    prompts: Sequence[list[int]] = ()
    new_tokens: int = 0
    eos_id: int | None = None
    banned: Sequence[int] = ()
    only_times: bool = False


def short(train: TrainSettings, **changed: Any) -> TrainSettings:
    """Section `train` for a short run in one process, without early stopping or kept epochs."""
    alone = dataclasses.replace(train, processes=1, epochs=None, patience=None, keep_epochs=())
    return dataclasses.replace(alone, **changed)


def train_store(stories: int | None) -> TokenStore:
    """The train split, cut to its first `stories`; None keeps all."""
    store = TokenStore(paths.TOKENS, "train")
    if stories is not None and stories < len(store):
        store.name = f"train (accum_sweep.stories: {stories})"
        store.offsets = store.offsets[: stories + 1]
        store.ids = store.ids[: store.offsets[-1]]
    return store


def fresh(task: Task) -> TrainingRun:
    """The initial weights of stage train, and mini-batches in an order that no setting changes."""
    stores = {split: TokenStore(paths.TOKENS, split) for split in SPLITS}
    stores["train"] = train_store(task.stories)
    matrix = torch.from_numpy(load_matrix(paths.EMBEDDING))
    device = pick_device(task.runtime.device)
    data = TrainingData(stores, matrix, task.pad_id)
    run = new_run(task.model, task.train, data, device, task.runtime.threads)
    budget = run.batches.tokens_of(task.mini_batches)
    return dataclasses.replace(run, settings=dataclasses.replace(run.settings, tokens=budget))


def train_task(task: Task) -> dict[str, Any]:
    """Train; returns times, peak memory, a hash of the final weights and the curves.

    `curve` and `held_out` are lists of (updates, tokens, nats per token). The loss in `curve` is
    measured on the tokens of the update itself, before the weights change. `texts` are the new ids
    after each prompt.
    """
    run = fresh(task)
    batches = run.batches
    held_out_batches = math.ceil(task.held_out_rows / task.train.batch_size)
    short_run = dataclasses.replace(
        run, held_out=lambda: itertools.islice(run.held_out(), held_out_batches)
    )
    result = train(short_run, label=f"{task.columns['setting']}: ")
    curves = result.curves
    updates = len(curves.tokens)
    speed = result.tokens / result.train_s
    times = {
        "tokens_per_s": speed,
        "update_s": result.train_s / updates,
        "epoch_s": batches.tokens_per_epoch / speed,
    }
    if task.only_times:
        return times
    numbers = range(1, updates + 1)
    weights = parameters_to_vector(run.model.parameters()).detach().cpu()
    return {
        **times,
        "updates": updates,
        "curve": list(zip(numbers, curves.tokens, curves.train, strict=True)),
        "held_out": curves.held_out,
        "weights": hashlib.sha256(weights.numpy().tobytes()).hexdigest(),
        "texts": continuations(run.model, task),
        # the plain Trainer even on CUDA: a recorded graph allocates its memory only once
        "peak_mib": update_peak_mib(Trainer(run.model, batches, run.settings)),
    }


def continuations(model: TinyLM, task: Task) -> list[list[int]]:
    """The new ids after each of the task's prompts, by greedy decoding."""
    rows = generate(
        model,
        task.prompts,
        GREEDY,
        max_new_tokens=task.new_tokens,
        eos_id=task.eos_id,
        banned=task.banned,
    )
    return [row.ids for row in rows]


def update_peak_mib(trainer: Trainer) -> float:
    """Peak MiB of one update above weights, gradients and optimizer state.

    All mini-batches are the epoch's largest one, so settings differ only in their number.
    """
    largest = trainer.batches.batch(trainer.batches.largest())
    row = Batch(largest.inputs[:1], largest.targets[:1], int((largest.targets[:1] >= 0).sum()))
    update = [largest] * trainer.settings.accumulation
    trainer.model.zero_grad(set_to_none=True)
    device = trainer.model.embedding.device
    return measure.peak_mib(lambda: trainer.update(update), device, lambda: trainer.update([row]))
