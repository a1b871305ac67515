"""The core of attention with its passes between the products in one loop each."""

from typing import Any

import torch
from torch import Tensor

from tinylm.kernels.training.binding import at, run
from tinylm.kernels.training.draws import chance, new_seed

LOW = torch.bfloat16


class LoopedCore(torch.autograd.Function):
    """`AttentionCore` in bfloat16, whose formulas it has.  (B, T, 3, H, Dh) -> (B, T, H * Dh)

    The weights are kept as they are before dropout; what it drops is drawn again in the backward pass. Scale and factor
    are applied to scores and weights, within the loops, so that Q, K, V and the result are only put in order.
    """

    @staticmethod
    def forward(ctx: Any, joined: Tensor, scale: Tensor, mask: Tensor, probability: float) -> Tensor:
        rows, length, _, heads, width = joined.shape
        packed = _split(joined.contiguous())
        queries, keys, values = packed.flatten(1, 2)  # (B * H, T, Dh) each
        weights = torch.bmm(queries, keys.mT)  # (B * H, T, S)
        ctx.drops = probability > 0
        ctx.drawn = new_seed() if ctx.drops else 0, *chance(probability)
        kept = torch.empty_like(weights) if ctx.drops else None
        run(
            "soften",
            at(weights, LOW, rows * heads, length, length),
            None if kept is None else kept.data_ptr(),
            at(scale, torch.float32, heads, 1, 1),
            at(mask, torch.float32, rows if len(mask) > 1 else 1, 1, length, length),
            len(mask),
            *ctx.drawn,
            *(rows, heads, length, length),
        )
        mixed = torch.bmm(weights if kept is None else kept, values)
        ctx.save_for_backward(packed, weights, scale)
        return _join(mixed.view(1, rows, heads, length, width)).view(rows, length, heads * width)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        packed, weights, scale = ctx.saved_tensors
        _, rows, heads, length, width = packed.shape
        queries, keys, values = packed.flatten(1, 2)
        by_output = _split(grads[0].contiguous().view(rows, length, 1, heads, width))[0].flatten(0, 1)
        by_scores = torch.bmm(by_output, values.mT)  # (B * H, T, S); of the kept weights, then of Q K^T
        kept = torch.empty_like(weights) if ctx.drops else None
        run(
            "by_scores",
            at(by_scores, LOW, *weights.shape),
            at(weights, LOW, *weights.shape),
            None if kept is None else kept.data_ptr(),
            at(scale, torch.float32, heads, 1, 1),
            *ctx.drawn,
            *(rows, heads, length, length),
        )
        found = torch.empty_like(packed)
        by_queries, by_keys, by_values = found.flatten(1, 2)
        torch.bmm((weights if kept is None else kept).mT, by_output, out=by_values)
        torch.bmm(by_scores, keys, out=by_queries)
        torch.bmm(by_scores.mT, queries, out=by_keys)
        return _join(found), None, None, None


def _split(inside: Tensor) -> Tensor:
    """(B, T, parts, H, Dh) -> (parts, B, H, T, Dh)"""
    rows, length, parts, heads, width = inside.shape
    apart = inside.new_empty(parts, rows, heads, length, width)
    run("split_heads", at(inside, LOW, *inside.shape), apart.data_ptr(), *inside.shape)
    return apart


def _join(apart: Tensor) -> Tensor:
    """(parts, B, H, T, Dh) -> (B, T, parts, H, Dh)"""
    parts, rows, heads, length, width = apart.shape
    inside = apart.new_empty(rows, length, parts, heads, width)
    run("join_heads", at(apart, LOW, *apart.shape), inside.data_ptr(), *inside.shape)
    return inside
