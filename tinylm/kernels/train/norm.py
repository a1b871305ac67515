"""Normalisation with a hand-written gradient, which keeps one tensor of x's size."""

from typing import Any

import torch
from torch import Tensor

KINDS = ("layer", "rms", "std")  # any other is computed by the reference


class ManualGradNorm(torch.autograd.Function):
    """y = n * gain + bias over the last axis, n = c / d; only n is kept for the backward pass.

    c is x, minus its mean if the kind is centred; d is sqrt(mean(c^2) + eps), for kind std s + eps with
    s = sqrt(sum(c^2) / (D - 1)). With g = dL/dy * gain:

    dL/dx = (g - mean(g) - n * k * mean(g * n)) / d, without mean(g) if c is x; k is 1, for std D d / ((D - 1) s).
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gain: Tensor, bias: Tensor | None, eps: float, kind: str
    ) -> Tensor:
        ctx.centred = kind != "rms"
        centred = x - x.mean(-1, keepdim=True) if ctx.centred else x
        square = centred.square()
        stretch = None
        if kind == "std":
            width = x.shape[-1]
            std = square.sum(-1, keepdim=True).div_(width - 1).sqrt_()
            divisor = std + eps
            inverse = divisor.reciprocal()
            stretch = divisor.mul_(width / (width - 1)).div_(
                std.clamp_(min=torch.finfo(x.dtype).tiny)
            )
        else:
            inverse = square.mean(-1, keepdim=True).add_(eps).rsqrt_()
        normed = centred.mul_(inverse) if ctx.centred else x * inverse
        ctx.save_for_backward(normed, inverse, gain, stretch)
        return normed * gain if bias is None else torch.addcmul(bias, normed, gain)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        normed, inverse, gain, stretch = ctx.saved_tensors
        grad = grads[0].to(inverse.dtype)
        product = grad * normed
        rows = (-1, gain.shape[0])
        grad_gain = product.reshape(rows).sum(0)
        grad_bias = grad.reshape(rows).sum(0) if ctx.needs_input_grad[2] else None
        product *= gain
        grad_x = grad * gain
        along = product.mean(-1, keepdim=True)
        if stretch is not None:
            along *= stretch
        if ctx.centred:
            grad_x.sub_(grad_x.mean(-1, keepdim=True))
        grad_x.sub_(normed * along).mul_(inverse)
        return grad_x, grad_gain, grad_bias, None, None
