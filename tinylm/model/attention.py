"""Masked multi-head self-attention for any number of heads on any width."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tinylm.kernels.training.attention import LoopedCore
from tinylm.kernels.training.attention_core import AttentionCore, fused_attention
from tinylm.model.dropout import Dropout, fast_draws
from tinylm.model.kv_cache import KVCache


def head_widths(inner: int, heads: int) -> list[int]:
    """Share `inner` columns out among the heads as evenly as it goes: 300 over 8 is 38 four times, then 37."""
    return [inner // heads + (head < inner % heads) for head in range(heads)]


def causal_mask(queries: Tensor, keys: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a query may look, -inf at later positions.  positions (..., T), (S,) -> (..., 1, T, S)"""
    hidden = keys > queries[..., None]
    mask = torch.zeros(hidden.shape, dtype=dtype, device=keys.device).masked_fill_(hidden, float("-inf"))
    return mask.unsqueeze(-3)


class SelfAttention(nn.Module):
    """Masked multi-head self-attention (Vaswani et al. 2017, section 3.2), all heads in one product.

    softmax(Q K^T / sqrt(Dh) + mask) V for each head, heads joined, then a linear output.  (B, T, D) -> (B, T, D)

    Where the H heads do not divide the inner width, their widths differ by one (`head_widths`). The weights are
    then laid out with a zero column behind each narrower head, so that one product still serves all: a zero column
    adds nothing to a score, its value is zero, and each head is scaled by its own width.
    """

    slots: Tensor
    scale: Tensor

    def __init__(
        self, width: int, heads: int, head_width: int | None, dropout: float, bias: bool, out_bias: bool
    ) -> None:
        super().__init__()
        inner = width if head_width is None else heads * head_width
        widths = head_widths(inner, heads)
        self.heads, self.head_width, self.inner = heads, widths[0], inner
        self.ragged = widths[0] != widths[-1]
        self.qkv = nn.Linear(width, 3 * inner, bias=bias)
        self.out = nn.Linear(inner, width, bias=out_bias)
        self.dropout = Dropout(dropout)
        self.fused = False  # torch's kernel while training
        self.looped = False
        self.silent: tuple[int, ...] = ()  # heads that add nothing to the output, for measuring what they are worth
        slots = torch.full((heads, widths[0]), inner)  # column `inner` is the zero column
        for head, (columns, own) in enumerate(zip(torch.arange(inner).split(widths), widths, strict=True)):
            slots[head, :own] = columns
        self.register_buffer("slots", slots.flatten(), persistent=False)
        scale = torch.tensor(widths, dtype=torch.float64).rsqrt().float()
        self.register_buffer("scale", scale[:, None, None], persistent=False)

    def _padded(self, x: Tensor, dim: int) -> Tensor:
        """Insert the zero columns of ragged heads along `dim`."""
        return F.pad(x.movedim(dim, -1), (0, 1)).index_select(-1, self.slots).movedim(-1, dim)

    def _joined(self, x: Tensor) -> Tensor:
        """Queries, keys and values as one product.  (B, T, D) -> (B, T, 3, H, Dh)"""
        weight: Tensor = self.qkv.weight
        bias: Tensor | None = self.qkv.bias
        if self.ragged:
            weight = self._padded(weight.unflatten(0, (3, -1)), 1).flatten(0, 1)
            bias = None if bias is None else self._padded(bias.unflatten(0, (3, -1)), 1).flatten()
        return F.linear(x, weight, bias).unflatten(-1, (3, self.heads, self.head_width))

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (B, H, T, Dh)."""
        queries, keys, values = self._joined(x).permute(2, 0, 3, 1, 4)
        return queries, keys, values

    def _out(self, joined: Tensor) -> Tensor:
        weight = self._padded(self.out.weight, 1) if self.ragged else self.out.weight
        return F.linear(joined, weight, self.out.bias)

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        cache: KVCache | None = None,
        layer: int = 0,
        positions: Tensor | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """Attend over x (B, T, D) under an additive mask (B or 1, 1, T, S).

        With a cache, keys and values are stored at `positions` (B or 1, T) and those of all past slots are used.
        `maps` collects the weights (B, H, T, S).
        """
        alone = self.training and cache is None and maps is None and not self.silent
        if alone and not self.fused and fast_draws(x):
            core = LoopedCore if self.looped else AttentionCore
            return self._out(core.apply(self._joined(x), self.scale, mask, self.dropout.probability))
        queries, keys, values = self.project(x)
        if alone and self.fused:
            scaled = (queries * self.scale).to(queries.dtype)
            return self._out(fused_attention(scaled, keys, values, self.dropout.probability))
        if cache is not None and positions is not None:
            keys, values = cache.store(layer, keys, values, positions)
        scores = (queries * self.scale) @ keys.to(queries.dtype).transpose(-2, -1)  # (B, H, T, S)
        weights = torch.softmax(scores + mask, dim=-1)
        if maps is not None:
            maps.append(weights.detach())
        weights = self.dropout(weights)
        mixed = weights.to(values.dtype) @ values  # (B, H, T, Dh)
        if self.silent:
            mixed = mixed.index_fill(1, torch.tensor(self.silent, device=mixed.device), 0)
        return self._out(mixed.transpose(1, 2).flatten(2))
