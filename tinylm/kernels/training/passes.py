"""Single passes within larger operations: GELU and its gradient, softmax with its loss, a sum of gradients."""

import torch
from torch import Tensor

from tinylm.kernels.training.binding import at, run

LOW = torch.bfloat16


def gelu(x: Tensor) -> Tensor:
    """x times the normal distribution's share below x, in bfloat16; overwrites x with the slope there."""
    y = torch.empty_like(x)
    run("gelu", at(x, LOW, *x.shape), y.data_ptr(), x.numel())
    return y


def nats(logits: Tensor, targets: Tensor) -> Tensor:
    """Sum of the targets' nats in float64; overwrites the logits (n, V) with softmax - one-hot.

    Raises IndexError where a target is not a column: what lies there is written to.
    """
    rows, words = logits.shape
    if rows and not 0 <= int(targets.min()) <= int(targets.max()) < words:
        raise IndexError(f"targets from {int(targets.min())} to {int(targets.max())}; allowed: 0 to {words - 1}")
    found = torch.empty(rows, dtype=torch.float64)
    run("nats", at(logits, LOW, rows, words), at(targets, torch.int64, rows), found.data_ptr(), rows, words)
    return found.sum()


def sum_up(total: Tensor, part: Tensor, is_first: bool) -> None:
    """total (float32) becomes part (bfloat16), where that is the first, else total + part."""
    places = at(total, torch.float32, *part.shape), at(part, LOW, *part.shape)
    run("sum_up", *places, is_first, part.numel())
