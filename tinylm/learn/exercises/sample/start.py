import torch
from torch import Tensor


def probabilities(logits: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """What the next word is drawn from, after top-k, temperature and top-p.  (V,) -> (V,)"""
    raise NotImplementedError


def draw(p: Tensor, u: float) -> int:
    """The first index whose cumulative probability exceeds u.  (V,) -> id"""
    raise NotImplementedError
