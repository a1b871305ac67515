import torch
from torch import Tensor


def sinusoids(context: int, width: int) -> Tensor:
    """Alternating sines and cosines of t / 10000^(2i / D).  -> (T, D) float32"""
    raise NotImplementedError
