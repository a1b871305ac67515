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
from tinylm.bench.device import peak_mib
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import TinyLM
from tinylm.train.curves import Curves
from tinylm.train.loop import train
from tinylm.train.preparation import SPLITS, TrainingData, TrainingRun, new_run
from tinylm.train.settings import TrainSettings
from tinylm.train.trainer import Trainer
from tinylm.vocab.batches import Batch
from tinylm.vocab.embedding.matrix_file import load_matrix
from tinylm.vocab.token_store import TokenStore

GREEDY = DecodeSettings(temperature=0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingTask:
    """One training run on the data of the working directory.

    name: of its setting. mini_batches: how many to train on, a multiple of `train.accumulation`.
    held_out_rows: about how many to score in each validation. stories: how many train stories to
    use, from the first; None for all. prompts: what the trained model continues by at most
    `new_tokens` tokens, greedily and without the `banned` ids.
    """

    name: str
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


@dataclasses.dataclass(frozen=True)
class TrainingTimes:
    """Speed of a training run. epoch_s: seconds for one pass over its train stories."""

    tokens_per_s: float
    update_s: float
    epoch_s: float


Curve = Sequence[tuple[int, int, float]]  # updates, tokens, nats per token


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingMeasurement:
    """One training run, measured.

    curve: the loss of each update on its own tokens, before the weights change. held_out: the
    validations. weights: a hash of the final ones. texts: the new ids after each prompt.
    peak_mib: memory of one update above weights, gradients and optimizer state.
    """

    times: TrainingTimes
    updates: int
    curve: Curve
    held_out: Curve
    weights: str
    texts: list[list[int]]
    peak_mib: float

    def __str__(self) -> str:
        return f"{self.times.tokens_per_s:,.0f} tokens/s, peak {self.peak_mib:.1f} MiB"


def short_run(train: TrainSettings, **changed: Any) -> TrainSettings:
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


def new_training_run(task: TrainingTask) -> TrainingRun:
    """The initial weights of stage train, and mini-batches in an order that no setting changes."""
    stores = {split: TokenStore(paths.TOKENS, split) for split in SPLITS}
    stores["train"] = train_store(task.stories)
    matrix = torch.from_numpy(load_matrix(paths.EMBEDDING))
    device = pick_device(task.runtime.device)
    data = TrainingData(stores, matrix, task.pad_id)
    run = new_run(task.model, task.train, data, device, task.runtime.threads)
    budget = run.batches.tokens_of(task.mini_batches)
    return dataclasses.replace(run, settings=dataclasses.replace(run.settings, tokens=budget))


def load_what_backward_needs() -> None:
    """The first backward pass with a given gradient, as recomputation makes, has torch import sympy.

    It takes about half a second, once in each process, which would be counted as time of an update (torch 2.13.0).
    """
    y = torch.ones(1, requires_grad=True) * 2
    torch.autograd.backward(y, torch.ones(1))


def measure(task: TrainingTask) -> TrainingMeasurement:
    """Train, then measure losses, weights, texts and memory."""
    run = new_training_run(task)
    curves, times = _train(run, task)
    updates = len(curves.tokens)
    numbers = range(1, updates + 1)
    weights = parameters_to_vector(run.model.parameters()).detach().cpu()
    return TrainingMeasurement(
        times=times,
        updates=updates,
        curve=list(zip(numbers, curves.tokens, curves.train, strict=True)),
        held_out=curves.held_out,
        weights=hashlib.sha256(weights.numpy().tobytes()).hexdigest(),
        texts=continuations(run.model, task),
        # the plain Trainer even on CUDA: a recorded graph allocates its memory only once
        peak_mib=update_peak_mib(Trainer(run.model, run.batches, run.settings)),
    )


def measure_times(task: TrainingTask) -> TrainingTimes:
    """Train, and measure only the speed."""
    return _train(new_training_run(task), task)[1]


def _train(run: TrainingRun, task: TrainingTask) -> tuple[Curves, TrainingTimes]:
    """Train the run's model. Returns its curves and speed."""
    load_what_backward_needs()
    held_out_batches = math.ceil(task.held_out_rows / task.train.batch_size)
    short = dataclasses.replace(
        run, held_out=lambda: itertools.islice(run.held_out(), held_out_batches)
    )
    result = train(short, label=f"{task.name}: ")
    speed = result.tokens / result.train_s
    times = TrainingTimes(
        tokens_per_s=speed,
        update_s=result.train_s / len(result.curves.tokens),
        epoch_s=run.batches.tokens_per_epoch / speed,
    )
    return result.curves, times


def continuations(model: TinyLM, task: TrainingTask) -> list[list[int]]:
    """The new ids after each of the task's prompts, by greedy decoding."""
    decoder = Decoder(model=model, eos_id=task.eos_id, banned=task.banned)
    rows = generate(decoder, task.prompts, GREEDY, max_new_tokens=task.new_tokens)
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
    return peak_mib(lambda: trainer.update(update), device, lambda: trainer.update([row]))
