"""What a run is assembled from: fresh weights, training batches in their order, held-out batches."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tinylm.base.seeding import derive_seed, seed_everything
from tinylm.kernels.train.ops import training_ops
from tinylm.model.checkpoint import new_model
from tinylm.model.recompute import RunRecomputing
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import RunBlocks, TinyLM, in_order
from tinylm.train.compiling import RunCompiled
from tinylm.train.precision import resolved
from tinylm.train.settings import TrainSettings
from tinylm.vocab.batches import Batch, TrainBatches, scoring_batches
from tinylm.vocab.token_store import TokenStore


@dataclass(frozen=True)
class Assembly:
    """Arguments of `loop.train`."""

    model: TinyLM
    batches: TrainBatches
    held_out: Callable[[], Iterator[Batch]]


def _run_blocks(settings: TrainSettings, shape: tuple[int, int, int]) -> RunBlocks:
    if settings.compile == "true":
        return RunCompiled(shape)
    return in_order if settings.recompute == "none" else RunRecomputing(settings.recompute)


def training_model(
    model: ModelSettings, train: TrainSettings, embedding: Tensor, device: Any
) -> TinyLM:
    """Fresh weights over the (V, D) matrix, bound to the fastest operations that this machine has for such a run.

    Raises InputError if settings and width do not fit.
    """
    train = resolved(train, device)
    loss = "twice" if train.recompute == "blocks+loss" else "chunked"
    ops = training_ops(train.precision, device, train.attention == "torch", loss)
    run_blocks = _run_blocks(train, (train.batch_size, model.context, embedding.shape[1]))
    return new_model(model, embedding, ops, run_blocks).to(device)


def assemble(
    model: ModelSettings,
    train: TrainSettings,
    embedding: Tensor,
    stores: Mapping[str, TokenStore],
    pad_id: int,
    device: Any,
    threads: int,
) -> Assembly:
    """Weights and batches as the settings and the seed of section `train` decide them; seeds every generator.

    embedding (V, D). Raises InputError if settings and width do not fit.
    """
    seed_everything(derive_seed(train.seed, "train"), threads)
    fresh = training_model(model, train, embedding, torch.device(device))
    shape = train.layout, train.batch_size, model.context, pad_id
    batches = TrainBatches(stores["train"], *shape, derive_seed(train.seed, "order"))
    return Assembly(fresh, batches, lambda: scoring_batches(stores["held_out"], *shape))
