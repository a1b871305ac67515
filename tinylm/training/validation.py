"""The loss over a split: the one loop that held-out, evaluation and the benches share."""

from collections.abc import Iterable

import torch

from tinylm.config import InputError
from tinylm.model.lm import TinyLM
from tinylm.text.batches import Batch


@torch.no_grad()
def split_loss(model: TinyLM, batches: Iterable[Batch], precision: str = "fp32") -> tuple[float, int]:
    """Sum of nats and number of scored tokens over all batches, without dropout; the mode is restored.

    Raises InputError where there is none.
    """
    was_training = model.training
    model.eval()
    device = model.embedding.device
    nats, tokens = 0.0, 0
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        for batch in batches:
            nats += float(model.loss(batch.inputs.to(device), batch.targets.to(device)))
            tokens += batch.tokens
    model.train(was_training)
    if not tokens:
        raise InputError("the split holds no token to score; give it at least one story of two words")
    return nats, tokens
