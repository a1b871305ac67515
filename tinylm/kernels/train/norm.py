"""Normalisation with its own backward pass: in torch, keeping one tensor of x's size, and in one pass in C++."""

from typing import Any

import torch
from torch import Tensor

from tinylm.kernels.train.binding import call, checked_ptr

KINDS = ("layer", "rms", "std")  # in the order of norms.cpp; any other is computed by the reference


class NormByHand(torch.autograd.Function):
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
        (grad,) = grads
        if grad.dtype != inverse.dtype:
            grad = grad.to(inverse.dtype)
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


class NativeNorm(torch.autograd.Function):
    """`NormByHand` for x, gain and bias in float32, and a result in float32 or, for a product, in bfloat16."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gain: Tensor,
        bias: Tensor | None,
        eps: float,
        kind: str,
        for_product: bool,
    ) -> Tensor:
        x, width, fp32 = x.contiguous(), len(gain), torch.float32
        rows = x.numel() // width
        ctx.kind, ctx.for_product = KINDS.index(kind), for_product
        normed, y = (
            torch.empty_like(x, dtype=torch.bfloat16 if for_product else fp32) for _ in range(2)
        )
        inverse = x.new_empty(rows)
        stretch = x.new_empty(rows if kind == "std" else 0)
        inputs = checked_ptr(x, fp32, *x.shape[:-1], width), checked_ptr(gain, fp32, width)
        outputs = normed.data_ptr(), y.data_ptr(), inverse.data_ptr(), stretch.data_ptr()
        bias_ptr = None if bias is None else checked_ptr(bias, fp32, width)
        call("normalise", *inputs, bias_ptr, *outputs, eps, ctx.kind, for_product, rows, width)
        ctx.save_for_backward(normed, inverse, stretch, gain)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        normed, inverse, stretch, gain = ctx.saved_tensors
        grad, rows = grads[0].contiguous(), len(inverse)
        grad_x = torch.empty_like(grad, dtype=torch.float32)
        grad_gain = torch.empty_like(gain)
        grad_bias = torch.empty_like(gain) if ctx.needs_input_grad[2] else None
        kept = (tensor.data_ptr() for tensor in (normed, inverse, stretch, gain))
        outputs = (
            grad_x.data_ptr(),
            grad_gain.data_ptr(),
            None if grad_bias is None else grad_bias.data_ptr(),
        )
        place = checked_ptr(grad, normed.dtype, *normed.shape)
        call("normalise_back", place, *kept, *outputs, ctx.kind, ctx.for_product, rows, len(gain))
        return grad_x, grad_gain, grad_bias, None, None, None
