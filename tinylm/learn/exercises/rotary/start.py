import torch
from torch import Tensor


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotate each pair of columns (i, i + Dh / 2) by t / 10000^(2i / Dh).  (B, H, T, Dh), (T,)"""
    raise NotImplementedError
