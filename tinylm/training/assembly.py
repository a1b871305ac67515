"""What a run is put together from: fresh weights, training batches in their order, held-out batches."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tinylm.base.seeding import derive_seed, seed_everything
from tinylm.model.checkpoint import new_model
from tinylm.model.lm import ModelSettings, TinyLM
from tinylm.text.batches import Batch, TrainBatches, scoring_batches
from tinylm.text.stores.token_store import TokenStore
from tinylm.training.trainer import TrainSettings


@dataclass(frozen=True)
class Assembly:
    """Arguments of `loop.train`."""

    model: TinyLM
    batches: TrainBatches
    held_out: Callable[[], Iterator[Batch]]


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

    embedding (V, D). Raises InputError where settings and width do not fit.
    """
    seed_everything(derive_seed(train.seed, "train"), threads)
    fresh = new_model(model, embedding).to(device)
    shape = train.layout, train.batch_size, model.context, pad_id
    batches = TrainBatches(stores["train"], *shape, derive_seed(train.seed, "order"))
    return Assembly(fresh, batches, lambda: scoring_batches(stores["held_out"], *shape))
