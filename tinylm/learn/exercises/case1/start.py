import torch
from torch import Tensor


def causal_mask(length: int, dtype: torch.dtype) -> Tensor:
    """0 where position t may look at position s, minus infinity elsewhere.  -> (T, T)"""
    looking = torch.arange(length)[:, None]
    looked_at = torch.arange(length)[None, :]
    hidden = looked_at - looking > 1
    return torch.zeros(length, length, dtype=dtype).masked_fill(hidden, float("-inf"))


def attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(Dh) + mask) V.  (B, H, T, Dh) each"""
    scores = queries @ keys.transpose(-2, -1) / queries.shape[-1] ** 0.5
    scores = scores + causal_mask(queries.shape[2], queries.dtype)
    return scores.softmax(-1) @ values
