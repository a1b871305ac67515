from collections.abc import Callable

import torch
from torch import Tensor


def checkpointed(block: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """block(x), keeping only x for the backward pass."""
    raise NotImplementedError
