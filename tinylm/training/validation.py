"""The loss over a split: the one loop that held-out, evaluation and the benches share."""

from collections.abc import Iterable

import torch
from torch import Tensor

from tinylm.config import InputError
from tinylm.model.lm import TinyLM
from tinylm.text.batches import Batch


@torch.no_grad()
def row_losses(model: TinyLM, batches: Iterable[Batch], precision: str = "fp32") -> Tensor:
    """(nats, scored tokens) of every row of all batches, without dropout; the mode is restored.  -> (rows, 2) float64

    Raises InputError where no token is scored.
    """
    was_training = model.training
    model.eval()
    device = model.embedding.device
    found = [torch.empty(0, 2, dtype=torch.float64)]
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        for batch in batches:
            nats = model.nats(batch.inputs.to(device), batch.targets.to(device)).sum(1, dtype=torch.float64)
            found.append(torch.stack([nats.cpu(), (batch.targets >= 0).sum(1).double()], dim=1))
    model.train(was_training)
    rows = torch.cat(found)
    if not rows[:, 1].any():
        raise InputError("the split holds no token to score; give it at least one story of two words")
    return rows


def split_loss(model: TinyLM, batches: Iterable[Batch], precision: str = "fp32") -> tuple[float, int]:
    """Sum of nats and number of scored tokens over all rows (see `row_losses`)."""
    nats, tokens = row_losses(model, batches, precision).sum(0).tolist()
    return nats, int(tokens)
