import torch
from torch import Tensor


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean of -ln softmax(logits)[target] over the targets >= 0.  (N, V), (N,) -> ()"""
    raise NotImplementedError
