"""Linear layers in float32 with oneDNN, which is faster on a CPU than MKL, torch's choice.

For the shapes used in training, oneDNN took 10 to 40 % less time on an AMD EPYC, where MKL spends a fifth of its time copying
matrices. In bfloat16 torch uses oneDNN anyway.
"""

import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


@functools.cache
def _has_onednn() -> bool:
    """Whether torch has oneDNN and the processor is of a kind on which it was measured to be faster."""
    measured = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    return measured and _multiplies()


def _multiplies() -> bool:
    """Whether torch's operation for it, which is private and may change, still computes x W^T + b."""
    numbers = torch.arange(-9, 11, dtype=torch.float32, device="cpu")  # whole: all sums are exact
    x, weight = numbers[:15].view(3, 5), numbers.view(4, 5)
    try:
        for bias in (None, numbers[:4]):
            if not _onednn_linear(x, weight, bias).equal(F.linear(x, weight, bias)):
                return False
    except (AttributeError, RuntimeError, TypeError):
        return False
    return True


def _onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return result


def uses_onednn(x: Tensor) -> bool:
    """Whether `fast_linear` of x uses oneDNN. Under autocast it does not: x is multiplied in bfloat16."""
    is_float32 = x.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    return is_float32 and x.device.type == "cpu" and _has_onednn()


def fast_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear by the faster library, for use inside an autograd.Function.  (N, D), (F, D), (F,) -> (N, F)"""
    if uses_onednn(x):
        return _onednn_linear(x, weight, bias)
    return F.linear(x, weight, bias)


class OneDnnLinear(torch.autograd.Function):
    """y = x W^T + b with dx = dy W;  dW = dy^T x;  db = sum of rows of dy.  (..., D) -> (..., F)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return fast_linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad = grads[0]
        rows = grad.reshape(-1, len(weight))
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        grad_x = fast_linear(grad, weight.T) if needs_x else None
        # This product is MKL's, since oneDNN would copy dy to transpose it.
        grad_weight = rows.T @ x.reshape(-1, weight.shape[1]) if needs_weight else None
        return grad_x, grad_weight, rows.sum(0) if needs_bias else None


def linear(x: Tensor, layer: nn.Linear) -> Tensor:
    """layer(x) by the faster library, with gradients."""
    if uses_onednn(x):
        return OneDnnLinear.apply(x, layer.weight, layer.bias)
    return F.linear(x, layer.weight, layer.bias)
