from collections.abc import Callable, Iterable
from typing import Any

import torch


@torch.no_grad()
def evaluate(
    model: Any, batches: Iterable[Any], loss: Callable[[Any, Any], tuple[float, int]]
) -> float:
    """The mean loss per token over the batches, without dropout; the model's mode is restored.

    loss(model, batch) gives (sum of losses, number of tokens).
    """
    was_training = model.training
    model.train(was_training)
    total = 0.0
    tokens = 0
    for batch in batches:
        nats, count = loss(model, batch)
        total += nats
        tokens += count
    model.train(was_training)
    return total / tokens
