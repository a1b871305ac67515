"""Shared by all versions of the output loss: the backward pass, chunks of rows, the type of products."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class LossFunction(torch.autograd.Function):
    """forward(ctx, hidden, weight, bias, targets, ...) computes the loss and all gradients; backward scales them.

    hidden (N, D), weight (V, D), bias (V,) or None, targets (N,) -> scalar, sum of nats. With
    P = softmax(logits) and Y the one-hot targets, both zero in rows that are not scored:

    dL/dlogits = P - Y;  dhidden = (P - Y) W;  dW = (P - Y)^T hidden;  dbias = sum of rows of P - Y
    """

    @staticmethod
    def finish(
        ctx: Any,
        total: Tensor,
        grad_hidden: Tensor,
        grad_weight: Tensor | None,
        grad_bias: Tensor | None,
    ) -> Tensor:
        """Keep the gradients for `backward`; returns the loss."""
        if grad_weight is not None:
            grad_weight = grad_weight.contiguous()
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # In place, to save a copy as large as the weights. Autograd allows no second call anyway.
        scaled = [None if grad is None else grad.mul_(grads[0]) for grad in ctx.saved_tensors]
        without_gradient = len(ctx.needs_input_grad) - len(
            scaled
        )  # targets, and flags of some versions
        return *scaled, *[None] * without_gradient


def product_dtype(hidden: Tensor) -> torch.dtype:
    """The type of matrix products with hidden: autocast's, if it applies."""
    device = hidden.device.type
    if torch.is_autocast_enabled(device) and hidden.dtype != torch.float64:
        return torch.get_autocast_dtype(device)
    return hidden.dtype


def chunks(rows: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` rows that cover all rows."""
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))
