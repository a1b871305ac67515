"""What a lower precision does to a product, in a few lines of torch: the reference of the compiled step.

fp32: x W^T.  bf16: both sides rounded to bfloat16, summed in float32.  int8: each output's weights are whole numbers
q = round(w / s) of -127..127 with s = max |w| / 127 (symmetric, per channel), each input row likewise with a scale of
its own: the product of whole numbers is exact, and is multiplied by both scales.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

PRECISIONS = ("fp32", "bf16", "int8")
STEPS = 127


def quantise(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Each row as whole numbers and the size of their unit.  (N, K) -> (N, K) whole, (N, 1)"""
    largest = rows.abs().amax(-1, keepdim=True)
    inverse = torch.where(largest > 0, STEPS / largest, 0.0)
    return (rows * inverse).round(), largest / STEPS


def rounded_product(precision: str, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b with both sides in the given precision, sums in float32 or exact.  (..., K), (N, K) -> (..., N)"""
    if precision == "bf16":
        return F.linear(x.bfloat16().float(), weight.bfloat16().float(), bias)
    if precision == "int8":
        (steps, unit), (weights, units) = quantise(x), quantise(weight)
        whole = F.linear(steps.double(), weights.double())  # exact
        y = whole.float() * units[:, 0] * unit
        return y if bias is None else y + bias
    return F.linear(x, weight, bias)


class LowerPrecision(TorchFunctionMode):
    """Inside it every linear layer of a model computes in `precision`; slow, since weights are rounded each time."""

    def __init__(self, precision: str) -> None:
        super().__init__()
        self.precision = precision

    def __torch_function__(self, function: Callable, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        if function is F.linear and self.precision != "fp32":
            return rounded_product(self.precision, *args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))
