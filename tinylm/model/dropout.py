"""Dropout (Srivastava et al. 2014), and a faster draw of what it drops."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

_LEVELS = 1 << 16  # a number of 16 random bits decides


def fast_draws(x: Tensor) -> bool:
    """Whether `Dropout` draws by `kept` rather than as torch does: on a CPU, in low precision, uncompiled."""
    return x.device.type == "cpu" and torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()


def kept(like: Tensor, probability: float) -> tuple[Tensor, float]:
    """(1 where kept, else 0, as `like`; factor of the kept ones) for a `probability` rounded to 1 / 65536.

    One number of torch's generator seeds numpy's SFC64, whose words are cut in four: some 10 times faster than
    torch's own draw, one number at a time, and as reproducible, since torch's generator alone decides.
    """
    dropped = round(probability * _LEVELS)
    generator = np.random.SFC64(int(torch.randint(1 << 62, ())))
    words = np.asarray(generator.random_raw(-(-like.numel() // 4))).view(np.int16)[: like.numel()]
    levels = torch.from_numpy(words).view(like.shape)
    return torch.ge(levels, dropped - _LEVELS // 2, out=torch.empty_like(like)), _LEVELS / (_LEVELS - dropped)


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, factor: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.factor = factor
        return (x * mask).mul_(factor)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (mask,) = ctx.saved_tensors
        return (grads[0] * mask).mul_(ctx.factor), None, None


class Dropout(nn.Module):
    """In training, each number is zero with the given probability and else divided by 1 - probability."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.probability:
            return x
        if fast_draws(x):
            return _Drop.apply(x, *kept(x, self.probability))
        return F.dropout(x, self.probability)
