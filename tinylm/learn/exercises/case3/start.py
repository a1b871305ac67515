from collections.abc import Callable

from torch import Tensor

Batch = tuple[Tensor, Tensor]


def count(batch: Batch) -> int:
    """The targets of a mini-batch that are scored."""
    return int((batch[1] >= 0).sum())


def accumulate(loss_sum: Callable[[Tensor, Tensor], Tensor], batches: list[Batch]) -> float:
    """Add the gradient of the mean loss over all tokens of all mini-batches; return this mean.

    loss_sum(inputs, targets): the sum of the losses of a mini-batch.
    """
    mean = 0.0
    for batch in batches:
        tokens = count(batch) * len(batches)
        loss = loss_sum(*batch) / tokens
        loss.backward()
        mean += loss.item()
    return mean
