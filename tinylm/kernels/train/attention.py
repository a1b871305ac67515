"""Attention between the linear layers: C++ except the matrix products; plus a wrapper for torch's attention."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tinylm.kernels.train.binding import call, checked_ptr
from tinylm.kernels.train.dropout import keep_level, new_seed


class NativeAttention(torch.autograd.Function):
    """dropout(softmax(scale Q K^T + mask)) V of all heads, joined, in bfloat16 or float32.  (B, T, 3, H, Dh) -> (B, T, H Dh)

    Q and K are rotated by their positions' angles when the heads are split; their gradients are
    rotated back when the heads are joined.
    With P the weights, M the mask of kept ones and c their factor:

    dV = (P M)^T c dY;  dP = M (c dY V^T);  dS = P (dP - sum(dP P));  dQ = scale dS K;  dK = dS^T scale Q

    The weights are kept as they are before dropout; the dropped ones are drawn again in the backward pass. The kernels
    apply scale and factor to scores and weights, so Q, K, V and the result are only reordered.
    """

    @staticmethod
    def forward(
        ctx: Any,
        joined: Tensor,
        scale: float,
        mask: Tensor,
        dropout: float,
        rope_cache: Tensor | None,
    ) -> Tensor:
        rows, length, _, heads, width = joined.shape
        packed = _split_heads(joined.contiguous(), rope_cache)
        ctx.rope_cache = rope_cache
        queries, keys, values = packed.flatten(1, 2)  # (B * H, T, Dh) each
        weights = torch.bmm(queries, keys.mT)  # (B * H, T, S)
        ctx.drops = dropout > 0
        ctx.drawn = new_seed() if ctx.drops else 0, *keep_level(dropout)
        dropped_out = torch.empty_like(weights) if ctx.drops else None
        call(
            "softmax_dropout",
            joined.dtype,
            checked_ptr(weights, weights.dtype, rows * heads, length, length),
            None if dropped_out is None else dropped_out.data_ptr(),
            scale,
            checked_ptr(mask, torch.float32, rows if len(mask) > 1 else 1, 1, length, length),
            len(mask),
            *ctx.drawn,
            *(rows, heads, length, length),
        )
        mixed = torch.bmm(weights if dropped_out is None else dropped_out, values)
        ctx.scale = scale
        ctx.save_for_backward(packed, weights)
        merged = _merge_heads(mixed.view(1, rows, heads, length, width))
        return merged.view(rows, length, heads * width)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        packed, weights = ctx.saved_tensors
        _, rows, heads, length, width = packed.shape
        queries, keys, values = packed.flatten(1, 2)
        merged = grads[0].contiguous().view(rows, length, 1, heads, width)
        grad_output = _split_heads(merged)[0].flatten(0, 1)
        # (B * H, T, S): gradient of the dropped-out weights; the kernel makes it that of Q K^T
        grad_scores = torch.bmm(grad_output, values.mT)
        dropped_out = torch.empty_like(weights) if ctx.drops else None
        call(
            "grad_scores",
            packed.dtype,
            checked_ptr(grad_scores, packed.dtype, *weights.shape),
            checked_ptr(weights, weights.dtype, *weights.shape),
            None if dropped_out is None else dropped_out.data_ptr(),
            ctx.scale,
            *ctx.drawn,
            *(rows, heads, length, length),
        )
        grads_packed = torch.empty_like(packed)
        grad_queries, grad_keys, grad_values = grads_packed.flatten(1, 2)
        kept = weights if dropped_out is None else dropped_out
        torch.bmm(kept.mT, grad_output, out=grad_values)
        torch.bmm(grad_scores, keys, out=grad_queries)
        torch.bmm(grad_scores.mT, queries, out=grad_keys)
        return _merge_heads(grads_packed, ctx.rope_cache), None, None, None, None


def _split_heads(inside: Tensor, rope_cache: Tensor | None = None) -> Tensor:
    """(B, T, parts, H, Dh) -> (parts, B, H, T, Dh); `apply_rotary` to the first two parts with (1, T, 2, Dh / 2), if given."""
    rows, length, parts, heads, width = inside.shape
    apart = inside.new_empty(parts, rows, heads, length, width)
    address = checked_ptr(inside, inside.dtype, *inside.shape)
    call(
        "split_heads",
        inside.dtype,
        address,
        apart.data_ptr(),
        _table(rope_cache, inside),
        *inside.shape,
    )
    return apart


def _merge_heads(apart: Tensor, rope_cache: Tensor | None = None) -> Tensor:
    """`_split_heads` undone.  (parts, B, H, T, Dh) -> (B, T, parts, H, Dh)"""
    parts, rows, heads, length, width = apart.shape
    inside = apart.new_empty(rows, length, parts, heads, width)
    address = checked_ptr(apart, apart.dtype, *apart.shape)
    call(
        "join_heads",
        apart.dtype,
        address,
        inside.data_ptr(),
        _table(rope_cache, inside),
        *inside.shape,
    )
    return inside


def _table(rope_cache: Tensor | None, inside: Tensor) -> int | None:
    if rope_cache is None:
        return None
    _, length, _, _, width = inside.shape
    return checked_ptr(rope_cache, torch.float32, 1, length, 2, width // 2)


def torch_attention(qkv: Tensor, scale: float, mask: Tensor, dropout: float) -> Tensor:
    """`scaled_dot_product_attention` under the causal mask, which CUDA fuses.  (B, T, 3, H, Dh) -> (B, T, H Dh)

    mask: (1, 1, T, T), which must be causal. Raises ValueError for a mask that differs between rows: it is not used.
    """
    if len(mask) != 1:
        raise ValueError(f"attention: torch: expected one causal mask, got {len(mask)} masks")
    queries, keys, values = qkv.permute(2, 0, 3, 1, 4)  # (B, H, T, Dh) each
    queries = queries * scale
    mixed = F.scaled_dot_product_attention(
        queries, keys, values, dropout_p=dropout, is_causal=True, scale=1.0
    )
    return mixed.transpose(1, 2).flatten(2)
