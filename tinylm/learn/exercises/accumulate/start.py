from collections.abc import Callable

import torch
from torch import Tensor


def accumulate(
    loss_sum: Callable[[Tensor, Tensor], Tensor], batches: list[tuple[Tensor, Tensor]]
) -> float:
    """Add the gradient of the mean loss over the tokens of all mini-batches; return this mean."""
    raise NotImplementedError
