"""Layer normalisation with its backward pass by hand."""

from typing import Any

import torch
from torch import Tensor, nn


class _Normalise(torch.autograd.Function):
    """y = (x - mean) / std * gain + bias over the last axis; keeps one tensor of x's size for the backward pass.

    With n = (x - mean) / std and g = dL/dy * gain:  dL/dx = (g - mean(g) - n * mean(g * n)) / std.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        normed = x - mean
        inverse_std = normed.square().mean(-1, keepdim=True).add_(eps).rsqrt_()
        normed *= inverse_std
        ctx.save_for_backward(normed, inverse_std, gain)
        return torch.addcmul(bias, normed, gain)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        normed, inverse_std, gain = ctx.saved_tensors
        (grad,) = grads
        product = grad * normed
        rows = (-1, gain.shape[0])
        grad_gain, grad_bias = product.reshape(rows).sum(0), grad.reshape(rows).sum(0)
        product *= gain
        grad_x = grad * gain
        mean_g = grad_x.mean(-1, keepdim=True)
        grad_x.sub_(mean_g).sub_(normed * product.mean(-1, keepdim=True)).mul_(inverse_std)
        return grad_x, grad_gain, grad_bias, None


class LayerNorm(nn.Module):
    """Layer normalisation over the last axis, computed in the parameters' precision (Ba et al. 2016, eq. 3-4).

    y = (x - mean(x)) / sqrt(var(x) + eps) * gain + bias, with the biased variance.  (..., D) -> (..., D)
    """

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return _Normalise.apply(x.to(self.gain.dtype), self.gain, self.bias, self.eps)
