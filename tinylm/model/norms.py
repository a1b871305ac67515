"""The kinds of norm, by their names in `norm_kind` of section `model`.

To add one, write its formula and list it in NORMS: the settings, the model and its exports read that
table. Kernels, the story lab and the stock architectures refuse a kind that they do not have, or
leave it to the formula here. The formulas use methods of tensors alone, because params.yaml is
checked without importing torch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    Formula = Callable[[Tensor, float], Tensor]  # (x, eps) -> normalised x.  (..., D) -> (..., D)


def layer(x: "Tensor", eps: float) -> "Tensor":
    """(x - mean(x)) / sqrt(var(x) + eps), with the biased variance (Ba et al. 2016, eq. 3-4)."""
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return centred * (variance + eps).rsqrt()


def rms(x: "Tensor", eps: float) -> "Tensor":
    """x / sqrt(mean(x^2) + eps) (Zhang and Sennrich 2019, eq. 4)."""
    mean_square = x.square().mean(-1, keepdim=True)
    return x * (mean_square + eps).rsqrt()


def std(x: "Tensor", eps: float) -> "Tensor":
    """(x - mean(x)) / (s + eps), s the unbiased std sqrt(sum((x - mean(x))^2) / (D - 1))."""
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().sum(-1, keepdim=True) / (x.shape[-1] - 1)
    return centred * (variance.sqrt() + eps).reciprocal()


@dataclass(frozen=True)
class NormKind:
    """A formula; its result is multiplied by a learned gain, and a learned bias may be added."""

    formula: "Formula"
    has_bias: bool = True
    least_width: int = 1


NORMS = {
    "layer": NormKind(layer),
    "rms": NormKind(rms, has_bias=False),
    "std": NormKind(std, least_width=2),
}
