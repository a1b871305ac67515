"""Dropout alone and within a sum, in one pass each; what is dropped is drawn again in the backward pass, not kept."""

from typing import Any

import torch
from torch import Tensor

from tinylm.kernels.training.binding import at, run
from tinylm.kernels.training.draws import chance, new_seed


class LoopedDrop(torch.autograd.Function):
    """dropout(x) in float32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, probability: float) -> Tensor:
        ctx.drawn = new_seed(), *chance(probability)
        return _dropped(x, ctx.drawn)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _dropped(grads[0], ctx.drawn), None


def _dropped(x: Tensor, drawn: tuple[int, int, float]) -> Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    run("dropped", *(at(t, torch.float32, *x.shape) for t in (x, y)), *drawn, x.numel())
    return y


class LoopedAddDropped(torch.autograd.Function):
    """x + dropout(y) for x in float32, y in bfloat16."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, probability: float) -> Tensor:
        ctx.drawn = new_seed(), *chance(probability)
        x, y = x.contiguous(), y.contiguous()
        z = torch.empty_like(x)
        own, low = at(x, torch.float32, *x.shape), at(y, torch.bfloat16, *x.shape)
        run("add_dropped", own, low, z.data_ptr(), *ctx.drawn, x.numel())
        return z

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        grad = grads[0].contiguous()
        by_y = torch.empty_like(grad, dtype=torch.bfloat16)
        run("add_dropped_back", at(grad, torch.float32, *grad.shape), by_y.data_ptr(), *ctx.drawn, grad.numel())
        return grad, by_y, None
