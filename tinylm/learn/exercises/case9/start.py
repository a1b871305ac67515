import torch
from torch import Tensor


def top_p(logits: Tensor, p: float) -> Tensor:
    """Keep the fewest likeliest words that sum to p or more; -inf for the others.  (B, V) -> (B, V)"""
    ordered, ids = logits.sort(dim=-1, descending=True, stable=True)
    ordered_p = ordered.softmax(-1)
    total = ordered_p.cumsum(-1)
    outside = total > p
    outside[:, -1] = False  # something must be left
    return logits.masked_fill(outside.scatter(-1, ids, outside), float("-inf"))
