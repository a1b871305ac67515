import torch
from torch import Tensor

# a, b, c of the three steps
QUINTICS = ((7.7110, -22.1138, 16.2488), (3.2153, -2.4112, 0.5013), (2.2183, -1.5940, 0.4107))


def orthogonalise(x: Tensor) -> Tensor:
    """Nearly U V^T of the decomposition U S V^T, by three Newton-Schulz steps.  (m, n) -> (m, n)"""
    raise NotImplementedError


def muon(
    p: Tensor, g: Tensor, m: Tensor, lr: float, beta: float, weight_decay: float
) -> tuple[Tensor, Tensor]:
    """One update: the new (p, m)."""
    raise NotImplementedError
