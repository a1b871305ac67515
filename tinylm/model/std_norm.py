"""The norm of course report (B): its divisor is the standard deviation, and eps is added to that."""

from torch import Tensor


def inverse_std(centred: Tensor, eps: float) -> Tensor:
    """1 / (s + eps) with the unbiased deviation s = sqrt(sum(c^2) / (D - 1)).  (..., D) -> (..., 1)"""
    return (
        centred.square().sum(-1, keepdim=True).div(centred.shape[-1] - 1).sqrt() + eps
    ).reciprocal()
