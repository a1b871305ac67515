"""What a block does in low precision beside attention, with less kept for the backward pass than autograd would."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from tinylm.kernels.training import passes
from tinylm.kernels.training.dropping import LoopedAddDropped
from tinylm.model.dropout import kept


class Activation(NamedTuple):
    """A function, and what overwrites the gradient of its result with that of its input.

    The function may overwrite its input with what that needs.
    """

    forward: Callable[[Tensor], Tensor]
    back: Callable[[Tensor, Tensor], object]


def _relu_back(by_active: Tensor, inner: Tensor) -> None:
    torch.ops.aten.threshold_backward.grad_input(by_active, inner, 0.0, grad_input=by_active)


def _gelu_back(by_active: Tensor, inner: Tensor) -> None:
    torch.ops.aten.gelu_backward.grad_input(by_active, inner, approximate="none", grad_input=by_active)


RELU = Activation(torch.relu_, _relu_back)  # its result tells of its input what the gradient asks
GELU = Activation(F.gelu, _gelu_back)
LOOPED_GELU = Activation(passes.gelu, Tensor.mul_)


class LowFeedForward(torch.autograd.Function):
    """activation(x W1^T + b1) W2^T + b2 in x's precision; the weights' low copies are made again, not kept."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        up: Tensor,
        up_bias: Tensor | None,
        down: Tensor,
        down_bias: Tensor | None,
        activation: Activation,
    ) -> Tensor:
        low, rows = x.dtype, x.flatten(0, -2)  # (N, D)
        inner = _product(rows, up.to(low), up_bias)  # (N, F)
        ctx.activation, ctx.shape = activation, x.shape
        active = activation.forward(inner)
        ctx.save_for_backward(rows, inner, active, up, down)
        return _product(active, down.to(low), down_bias).view(x.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, inner, active, up, down = ctx.saved_tensors
        grad = grads[0].reshape(rows.shape)
        by_down = (active.T @ grad).T  # a quarter faster than grad.T @ active
        by_active = grad @ down.to(grad.dtype)
        ctx.activation.back(by_active, inner)
        by_up = by_active.T @ rows
        by_biases = [side.sum(0) if ctx.needs_input_grad[n] else None for n, side in ((2, by_active), (4, grad))]
        by_rows = (by_active @ up.to(grad.dtype)).view(ctx.shape)
        return (
            by_rows,
            by_up.to(up.dtype),
            _like(by_biases[0], up),
            by_down.to(down.dtype, memory_format=torch.contiguous_format),
            _like(by_biases[1], down),
            None,
        )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return F.linear(x, weight, None if bias is None else bias.to(x.dtype))


def _like(grad: Tensor | None, other: Tensor) -> Tensor | None:
    return None if grad is None else grad.to(other.dtype)


class _AddDropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, probability: float) -> Tensor:
        mask, ctx.factor = kept(y, probability)
        ctx.save_for_backward(mask.to(torch.int8))  # torch turns bool into floats ten times slower
        ctx.low = y.dtype
        return torch.add(x, mask.mul_(y), alpha=ctx.factor)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        (mask,) = ctx.saved_tensors
        by_y = torch.empty_like(grads[0], dtype=ctx.low)
        return grads[0], torch.mul(grads[0], ctx.factor, out=by_y).mul_(mask.to(ctx.low)), None


def add_dropped(x: Tensor, y: Tensor, probability: float, looped: bool = False) -> Tensor:
    """x + dropout(y) in x's precision; what is dropped is kept as one byte a number, or by its seed where looped."""
    return (LoopedAddDropped if looped else _AddDropped).apply(x, y, probability)
