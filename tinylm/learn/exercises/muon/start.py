import torch
from torch import Tensor


def orthogonalise(x: Tensor) -> Tensor:
    """Nearly U V^T of the decomposition U S V^T, by five Newton-Schulz steps.  (m, n) -> (m, n)"""
    raise NotImplementedError


def muon(
    p: Tensor, g: Tensor, m: Tensor, lr: float, beta: float, weight_decay: float
) -> tuple[Tensor, Tensor]:
    """One update: the new (p, m)."""
    raise NotImplementedError
