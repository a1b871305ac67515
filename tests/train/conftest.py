from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.small import model_settings
from tinylm.kernels.train.ops import ManualGradOps
from tinylm.model.transformer import TinyLM
from tinylm.train.preparation import TrainingRun, training_model
from tinylm.train.settings import TrainSettings
from tinylm.vocab.batches import Batch, TrainBatches, scoring_batches
from tinylm.vocab.token_store import TokenStore, write_store

VOCAB, WIDTH, PAD, CONTEXT = 17, 16, 2, 13


def counting_story(rng: np.random.Generator) -> list[int]:
    """<sos>, then numbers that go up by one round and round, <eos>: after the first, every number can be known."""
    start, length = rng.integers(13), rng.integers(4, 11)
    return [0, *(4 + (start + np.arange(length)) % 13).tolist(), 1]


@pytest.fixture
def stores(tmp_path) -> dict[str, TokenStore]:
    """Token stores of a corpus that is easy to learn."""
    rng = np.random.default_rng(3)
    for split, count in (("train", 200), ("held_out", 20)):
        write_store(tmp_path / "tokens", split, [counting_story(rng) for _ in range(count)], VOCAB)
    return {split: TokenStore(tmp_path / "tokens", split) for split in ("train", "held_out")}


@pytest.fixture
def held_out(stores) -> Callable[[], Any]:
    return lambda layout="stories": scoring_batches(stores["held_out"], layout, 7, CONTEXT, PAD)


@pytest.fixture
def new_batches(stores) -> Callable[..., TrainBatches]:
    def make(batch_size: int = 8, layout: str = "stories", seed: int = 1) -> TrainBatches:
        return TrainBatches(stores["train"], layout, batch_size, CONTEXT, PAD, seed)

    return make


@pytest.fixture
def new_settings() -> Callable[..., TrainSettings]:
    base = {
        "layout": "stories", "unknown": 0.0, "batch_size": 8, "accumulation": 1, "processes": 1, "tokens": 6000, "epochs": None,
        "optimizer": "adamw", "lr": 1e-2, "muon_lr": 0.02, "beta1": 0.9,
        "beta2": 0.98, "weight_decay": 0.01, "decay": "matrices", "warmup": 0.1, "schedule": "cosine",
        "final_lr": 0.05, "clip_norm": 1.0, "precision": "fp32", "compile": "false", "attention": "own",
        "recompute": "none", "validate_every": 20, "patience": None, "keep_epochs": (), "seed": 1
    }  # fmt: skip
    return lambda **changes: TrainSettings(**(base | changes))


@pytest.fixture
def new_model() -> Callable[..., TinyLM]:
    """A small model with the same weights at every call; for_run: bound to the operations of such a run."""
    base = {"feed_forward": 32, "context": CONTEXT}

    def make(for_run: TrainSettings | None = None, **changes: Any) -> TinyLM:
        torch.manual_seed(5)
        settings, matrix = model_settings(**(base | changes)), torch.randn(VOCAB, WIDTH)
        if for_run is None:
            return TinyLM(settings, matrix, ManualGradOps())
        return training_model(settings, for_run, matrix, torch.device("cpu"))

    return make


@pytest.fixture
def new_run(new_model, new_batches, held_out) -> Callable[..., TrainingRun]:
    """new_run(settings): a run of the small model; changes: fields of TrainingRun."""

    def make(settings: TrainSettings, **changes: Any) -> TrainingRun:
        parts = {"model": new_model, "batches": new_batches, "held_out": lambda: held_out}
        made = {name: changes.pop(name, None) or parts[name]() for name in parts}
        return TrainingRun(**made, settings=settings, **changes)

    return make


@pytest.fixture
def ragged() -> list[Batch]:
    """Four mini-batches of unequal rows, widths and numbers of tokens."""
    batches = []
    for rows, width, tokens in (
        (3, 5, [5, 2, 1]),
        (2, 11, [11, 7]),
        (1, 2, [2]),
        (5, 7, [1, 1, 7, 1, 1]),
    ):
        inputs, targets = torch.randint(3, VOCAB, (2, rows, width))
        for row, length in enumerate(tokens):
            inputs[row, length:], targets[row, length:] = PAD, -1
        batches.append(Batch(inputs, targets, sum(tokens)))
    return batches
