"""Normalisation over the width, of three kinds, with its backward pass by hand."""

from typing import Any

import torch
from torch import Tensor, nn

from tinylm.kernels.training.norms import LoopedNormalise
from tinylm.model.dropout import fast_draws


class _Normalise(torch.autograd.Function):
    """y = n * gain + bias over the last axis, n = c / d; keeps one tensor of x's size for the backward pass, n.

    c is x, less its mean where the kind is centred; d is sqrt(mean(c^2) + eps), for kind std s + eps with
    s = sqrt(sum(c^2) / (D - 1)). With g = dL/dy * gain:

    dL/dx = (g - mean(g) - n * k * mean(g * n)) / d, without mean(g) where c is x; k is 1, for std D d / ((D - 1) s).

    low: the precision of y and of the n that is kept, where it is not x's; all sums are in x's.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, bias: Tensor | None, eps: float, kind: str, low: Any) -> Tensor:
        ctx.centred = kind != "rms"
        centre = x - x.mean(-1, keepdim=True) if ctx.centred else x
        square = centre.square()
        stretch = None
        if kind == "std":
            width = x.shape[-1]
            std = square.sum(-1, keepdim=True).div_(width - 1).sqrt_()
            divisor = std + eps
            inverse = divisor.reciprocal()
            stretch = divisor.mul_(width / (width - 1)).div_(std.clamp_(min=torch.finfo(x.dtype).tiny))
        else:
            inverse = square.mean(-1, keepdim=True).add_(eps).rsqrt_()
        normed = centre.mul_(inverse) if ctx.centred else x * inverse
        if low is not None:
            normed, gain, bias = normed.to(low), gain.to(low), None if bias is None else bias.to(low)
        ctx.save_for_backward(normed, inverse, gain, stretch)
        return normed * gain if bias is None else torch.addcmul(bias, normed, gain)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        normed, inverse, gain, stretch = ctx.saved_tensors
        (grad,) = grads
        if grad.dtype != inverse.dtype:
            grad, normed, gain = (t.to(inverse.dtype) for t in (grad, normed, gain))
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
        return grad_x, grad_gain, grad_bias, None, None, None


class Norm(nn.Module):
    """Normalisation over the last axis, computed in the parameters' precision.  (..., D) -> (..., D)

    layer: (x - mean(x)) / sqrt(var(x) + eps) * gain + bias, with the biased variance (Ba et al. 2016, eq. 3-4)
    rms:   x / sqrt(mean(x^2) + eps) * gain (Zhang and Sennrich 2019, eq. 4)
    std:   (x - mean(x)) / (std(x) + eps) * gain + bias, with the unbiased standard deviation (from two columns on)
    """

    def __init__(self, width: int, kind: str = "layer", eps: float = 1e-5) -> None:
        super().__init__()
        self.kind, self.eps = kind, eps
        self.looped = False
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = None if kind == "rms" else nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, narrow: bool = False) -> Tensor:
        """narrow: what follows is a product, so that in training in low precision the result may be low as well."""
        fast = self.training and fast_draws(x)
        low = torch.get_autocast_dtype("cpu") if narrow and fast else None
        normalise = LoopedNormalise if self.looped and fast else _Normalise
        return normalise.apply(x.to(self.gain.dtype), self.gain, self.bias, self.eps, self.kind, low)
