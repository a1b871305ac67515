import torch
from torch import Tensor


def adamw(
    p: Tensor, g: Tensor, m: Tensor, v: Tensor, t: int,
    lr: float, b1: float, b2: float, eps: float, weight_decay: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Update number t, counted from 1: the new (p, m, v)."""
    raise NotImplementedError
