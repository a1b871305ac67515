import torch
from torch import Tensor

from tinylm.model.ops import apply_attention, attention_weights
from tinylm.model.transformer import causal_mask


def attention(queries: Tensor, keys: Tensor, values: Tensor, heads: int) -> Tensor:
    """Causal attention of all heads, side by side.  (B, T, D), (B, T, D), (B, T, D) -> (B, T, D)"""
    split = [x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (queries, keys, values)]
    places = torch.arange(queries.shape[1])
    mask = causal_mask(places[None], places, queries.dtype)
    scale = torch.tensor(split[0].shape[-1] ** -0.5, dtype=queries.dtype)
    return apply_attention(attention_weights(split[0], split[1], scale, mask), split[2])
