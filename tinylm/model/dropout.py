"""Dropout (Srivastava et al. 2014), and a faster draw of what it drops."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tinylm.kernels.training.draws import chance, new_seed, random_bits
from tinylm.kernels.training.dropping import LoopedDrop


def fast_draws(x: Tensor) -> bool:
    """Whether `Dropout` draws by `kept` rather than as torch does: on a CPU, in low precision, uncompiled."""
    return x.device.type == "cpu" and torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()


def kept(like: Tensor, probability: float) -> tuple[Tensor, float]:
    """(1 where kept, else 0, as `like`; factor of the kept ones): faster than torch's draw, one number at a time."""
    level, factor = chance(probability)
    bits = torch.from_numpy(random_bits(new_seed(), like.numel())).view(like.shape)
    return torch.ge(bits, level, out=torch.empty_like(like)), factor


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, probability: float) -> Tensor:
        mask, ctx.factor = kept(x, probability)
        ctx.save_for_backward(mask)
        return (x * mask).mul_(ctx.factor)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return (grads[0] * mask).mul_(ctx.factor), None


class Dropout(nn.Module):
    """In training, each number is zero with the given probability and else divided by 1 - probability."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability
        self.looped = False

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.probability:
            return x
        if fast_draws(x):
            drop = LoopedDrop if self.looped and x.dtype == torch.float32 else _Drop
            return drop.apply(x, self.probability)
        return F.dropout(x, self.probability)
