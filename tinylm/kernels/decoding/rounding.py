"""What a lower precision does to a product, in a few lines of torch: the reference for the compiled step.

fp32: x W^T.  bf16: both sides rounded to bfloat16, summed in float32.  int8: each output's weights are whole numbers
q = round(w / s) from -127..127 with s = max |w| / 127 (symmetric, per channel); each input row has 256 steps from its
smallest number to its largest, 0 among them, since behind a ReLU or GELU a sign would be wasted. The product of whole
numbers is exact, and multiplied by both scales. Two things are more exact than that: queries, keys and values are
products in bf16, and the two largest logits, whose difference decides on the likeliest token, are computed again from
what was not rounded. Both precisions keep keys and values in binary16.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from tinylm.model.transformer import TinyLM

PRECISIONS = ("fp32", "bf16", "int8")
STEPS = 127
AGAIN = 2  # as in pass.h
_MATMUL = (torch.matmul, Tensor.matmul, Tensor.__matmul__)


def of_qkv(precision: str) -> str:
    """The precision of the products that give queries, keys and values."""
    return "bf16" if precision == "int8" else precision


def quantise(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Each row as whole numbers and their scale.  (N, K) -> (N, K) whole, (N, 1)"""
    largest = rows.abs().amax(-1, keepdim=True)
    inverse = torch.where(largest > 0, STEPS / largest, 0.0)
    return (rows * inverse).round(), largest / STEPS


def quantised_inputs(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Each row as 256 neighbouring whole numbers and their scale.  (..., K) -> (..., K) whole, (..., 1)"""
    low, high = rows.amin(-1, keepdim=True).clamp(max=0), rows.amax(-1, keepdim=True).clamp(min=0)
    inverse = torch.where(high > low, 255 / (high - low), 0.0)
    zero = (-low * inverse).round()
    return (rows * inverse).round().minimum(255 - zero), (high - low) / 255


def _rounded_weight(precision: str, weight: Tensor) -> tuple[Tensor, ...]:
    """What a product takes of its weights; on CUDA bf16 weights stay bf16, since their products are faster there."""
    if precision == "int8":
        whole, unit = quantise(weight)
        return whole.double(), unit[:, 0]
    rounded = weight.bfloat16()
    return (rounded if weight.is_cuda else rounded.float(),)


def _product(precision: str, x: Tensor, weight: tuple[Tensor, ...], bias: Tensor | None) -> Tensor:
    if precision == "int8":
        whole, unit = quantised_inputs(x)
        y = (
            F.linear(whole.double(), weight[0]).float() * weight[1] * unit
        )  # a product of whole numbers is exact
    else:
        y = F.linear(x.bfloat16().to(weight[0].dtype), weight[0]).float()
    return y if bias is None else y + bias


class LowerPrecision(TorchFunctionMode):
    """While active, every linear layer computes in `precision`.

    With a `model`, its own layers do it as above: queries, keys and values in bf16, the two largest logits in fp32.
    """

    def __init__(self, precision: str, model: TinyLM | None = None) -> None:
        super().__init__()
        self.precision = precision
        self._kept: dict[int, tuple[Tensor, tuple[Tensor, ...]]] = {}  # parameters are rounded once
        self._qkv = {id(block.attention.qkv.weight) for block in model.blocks} if model else set()  # type: ignore[union-attr]
        self._output = model.output_layer()[0] if model else None

    def _weight(self, precision: str, weight: Tensor) -> tuple[Tensor, ...]:
        if not isinstance(weight, torch.nn.Parameter):
            return _rounded_weight(precision, weight)
        if id(weight) not in self._kept:  # a kept tensor keeps its id
            self._kept[id(weight)] = weight, _rounded_weight(precision, weight)
        return self._kept[id(weight)][1]

    def _is_qkv(self, weight: Tensor) -> bool:
        if isinstance(weight, torch.nn.Parameter):
            return id(weight) in self._qkv
        return (
            bool(self._qkv) and weight.shape[0] > weight.shape[1]
        )  # ragged heads pad two weights: this one and `out`

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """x W^T + b with x and W in the precision, sums in float32 or exact.  (..., K), (N, K) -> (..., N)"""
        precision = of_qkv(self.precision) if self._is_qkv(weight) else self.precision
        y = _product(precision, x, self._weight(precision, weight), bias)
        if precision == "int8" and weight is self._output:
            ids = y.topk(min(AGAIN, y.shape[-1])).indices
            y.scatter_(
                -1, ids, F.linear(x, weight, bias).gather(-1, ids)
            )  # the reference need not be fast
        return y

    def __torch_function__(
        self, function: Callable, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        if self.precision != "fp32":
            if function is F.linear:
                return self.linear(*args, **(kwargs or {}))
            if function in _MATMUL and not args[1].is_cuda:  # a product with keys or values
                args = args[0], args[1].half().float()
        return function(*args, **(kwargs or {}))
