"""Validation: the loss over a split, its perplexity, and when early stopping ends a run."""

import math
from collections.abc import Iterable, Iterator
from itertools import islice

import torch
from torch import Tensor

from tinylm.base.config import InputError
from tinylm.base.progress import Progress
from tinylm.model.transformer import TinyLM
from tinylm.train.cores import map_on_cores
from tinylm.vocab.batches import Batch

Validation = tuple[int, int, float]  # update, tokens so far, held-out loss in nats per token


def target_losses(
    model: TinyLM, batches: Iterable[Batch], precision: str = "fp32", count: int = 1
) -> Iterator[tuple[Batch, Tensor]]:
    """Each batch and its losses in nats (B, T), 0 where no target is scored, without dropout.

    count: of batches that are computed at a time, see `cores`. The model's mode is restored.
    Progress is shown if it takes long. Raises InputError after the last batch if no token was
    scored.
    """
    was_training = model.training
    model.eval()
    device = model.embedding.device
    tokens = 0
    remaining = iter(batches)

    @torch.no_grad()
    def losses(batch: Batch) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            return model.token_loss(*batch.on(device))

    try:
        with Progress("loss of the split", None, "tokens", if_slow=True) as progress:
            while together := list(islice(remaining, count)):
                of_batches = map_on_cores(losses, together, count)
                for batch, nats in zip(together, of_batches, strict=True):
                    tokens += batch.tokens
                    progress.advance(batch.tokens)
                    yield batch, nats
    finally:
        model.train(was_training)
    if not tokens:
        raise InputError("no tokens to score: a split needs a story of at least two words")


@torch.no_grad()
def split_loss(
    model: TinyLM, batches: Iterable[Batch], precision: str = "fp32", count: int = 1
) -> tuple[float, int]:
    """Sum of nats and number of scored tokens over all rows (see `target_losses`)."""
    rows = []  # (nats, scored tokens) of each
    for batch, nats in target_losses(model, batches, precision, count):
        nats_of_rows = nats.sum(1, dtype=torch.float64).cpu()
        rows.append(torch.stack([nats_of_rows, (batch.targets >= 0).sum(1).double()], dim=1))
    total_nats, tokens = torch.cat(rows).sum(0).tolist()
    return total_nats, int(tokens)


def capped_perplexity(loss: float) -> float:
    """exp of a mean loss in nats per token, at most exp(600).

    A logarithmic axis reaches 8 % beyond its largest value, which must still be a number.
    """
    return math.exp(min(loss, 600.0))


def best_validation(held_out: list[Validation]) -> Validation:
    """The lowest held-out loss, the first of equal ones."""
    return min(held_out, key=lambda validation: validation[2])


def out_of_patience(held_out: list[Validation], patience: int | None, validate_every: int) -> bool:
    """Whether `patience` validations since the best one were no better; never if it is None.

    Only validations every `validate_every` updates count, not those at the end of an epoch.
    """
    if patience is None:
        return False
    best = best_validation(held_out)[0]
    worse = [update for update, _, _ in held_out if update > best and update % validate_every == 0]
    return len(worse) >= patience
