"""The loss over a split, and its perplexity."""

import math
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from tinylm.base.config import InputError
from tinylm.model.transformer import TinyLM
from tinylm.vocab.batches import Batch


@torch.no_grad()
def target_losses(
    model: TinyLM, batches: Iterable[Batch], precision: str = "fp32"
) -> Iterator[tuple[Batch, Tensor]]:
    """Each batch and its losses in nats (B, T), 0 where no target is scored, without dropout.

    The model's mode is restored. Raises InputError after the last batch if no token was scored.
    """
    was_training = model.training
    model.eval()
    device = model.embedding.device
    scored = False
    for batch in batches:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            nats = model.token_loss(*batch.on(device))
        scored = scored or batch.tokens > 0
        yield batch, nats
    model.train(was_training)
    if not scored:
        raise InputError(
            "the split holds no token to score; give it at least one story of two words"
        )


def split_loss(
    model: TinyLM, batches: Iterable[Batch], precision: str = "fp32"
) -> tuple[float, int]:
    """Sum of nats and number of scored tokens over all rows (see `target_losses`)."""
    rows = []  # (nats, scored tokens) of each
    for batch, nats in target_losses(model, batches, precision):
        nats_of_rows = nats.sum(1, dtype=torch.float64).cpu()
        rows.append(torch.stack([nats_of_rows, (batch.targets >= 0).sum(1).double()], dim=1))
    total_nats, tokens = torch.cat(rows).sum(0).tolist()
    return total_nats, int(tokens)


def capped_perplexity(loss: float) -> float:
    """exp of a mean loss in nats per token, at most exp(700), which a plot can still show."""
    return math.exp(min(loss, 700.0))
