"""Norms with hand-written gradients. The only large tensor kept for the backward pass is the normed x."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tinylm.kernels.train.binding import call, checked_ptr

# In the order of Kind in norm.cpp. The reference computes all other norms.
KINDS = ("layer", "rms", "std")


class ManualGradNorm(torch.autograd.Function):
    """y = n * gain + bias over the last axis, where n = c / d.

    layer: c = x - mean(x) and d = sqrt(mean(c^2) + eps). rms: the same with c = x.
    std: c = x - mean(x) and d = s + eps with the standard deviation s = sqrt(sum(c^2) / (D - 1)).

    With g = dL/dy * gain, dL/dx = (g - mean(g) - n * k * mean(g * n)) / d. For rms, mean(g) is left out. k is 1, but for
    std it is D d / ((D - 1) s).
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gain: Tensor, bias: Tensor | None, eps: float, kind: str
    ) -> Tensor:
        ctx.centred = kind != "rms"
        centred = x - x.mean(-1, keepdim=True) if ctx.centred else x
        square = centred.square()
        k = None
        if kind == "std":
            width = x.shape[-1]
            std = square.sum(-1, keepdim=True).div_(width - 1).sqrt_()
            divisor = std + eps
            inverse = divisor.reciprocal()
            std.clamp_(min=torch.finfo(x.dtype).tiny)
            k = divisor.mul_(width / (width - 1)).div_(std)
        else:
            inverse = square.mean(-1, keepdim=True).add_(eps).rsqrt_()
        normed = centred.mul_(inverse) if ctx.centred else x * inverse
        ctx.save_for_backward(normed, inverse, gain, k)
        return normed * gain if bias is None else torch.addcmul(bias, normed, gain)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        normed, inverse, gain, k = ctx.saved_tensors
        grad = grads[0].to(inverse.dtype)
        product = grad * normed
        rows = (-1, gain.shape[0])
        grad_gain = product.reshape(rows).sum(0)
        grad_bias = grad.reshape(rows).sum(0) if ctx.needs_input_grad[2] else None
        product *= gain
        grad_x = grad * gain
        projection = product.mean(-1, keepdim=True)
        if k is not None:
            projection *= k
        if ctx.centred:
            grad_x.sub_(grad_x.mean(-1, keepdim=True))
        grad_x.sub_(normed * projection).mul_(inverse)
        return grad_x, grad_gain, grad_bias, None, None


PART_ROWS = 64  # rows whose gradients of gain and bias one thread adds up


class NativeNorm(torch.autograd.Function):
    """`ManualGradNorm` in C++, in float32: forward and backward pass each go over memory once."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gain: Tensor, bias: Tensor | None, eps: float, kind: str
    ) -> Tensor:
        x = x.contiguous()
        width = len(gain)
        rows = x.numel() // width
        output = torch.empty_like(x)
        normed = torch.empty_like(x)
        factors = x.new_empty(rows, 2)  # 1 / d and k
        ctx.kind = KINDS.index(kind)
        call(
            "norm",
            torch.float32,
            checked_ptr(x, torch.float32, *x.shape),
            checked_ptr(gain, torch.float32, width),
            None if bias is None else checked_ptr(bias, torch.float32, width),
            output.data_ptr(),
            normed.data_ptr(),
            factors.data_ptr(),
            eps,
            *(ctx.kind, rows, width),
        )
        ctx.save_for_backward(normed, factors, gain)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        normed, factors, gain = ctx.saved_tensors
        grad = grads[0].contiguous()
        width = len(gain)
        grad_x = torch.empty_like(normed)
        # Sums over each part of the rows, which threads compute independently: for gain and for bias.
        sums = normed.new_empty(2, -(-len(factors) // PART_ROWS), width)
        call(
            "grad_norm",
            torch.float32,
            checked_ptr(grad, torch.float32, *normed.shape),
            normed.data_ptr(),
            factors.data_ptr(),
            gain.data_ptr(),
            grad_x.data_ptr(),
            sums[0].data_ptr(),
            sums[1].data_ptr(),
            *(ctx.kind, len(factors), width, PART_ROWS),
        )
        grad_gain, grad_bias = sums.sum(1)
        return grad_x, grad_gain, grad_bias if ctx.needs_input_grad[2] else None, None, None
