"""The core of attention with its passes between the products in one loop each."""

from typing import Any

import torch
from torch import Tensor

from tinylm.model.draws import chance, new_seed
from tinylm.model.loops.library import at, run

LOW = torch.bfloat16


class LoopedCore(torch.autograd.Function):
    """`AttentionCore` in bfloat16, whose formulas it has.  (B, T, 3, H, Dh) -> (B, T, H * Dh)

    The weights are kept as they are before dropout; what it drops is drawn again in the backward pass.
    """

    @staticmethod
    def forward(ctx: Any, joined: Tensor, scale: Tensor, mask: Tensor, probability: float) -> Tensor:
        rows, length, _, heads, width = joined.shape
        packed = _split(joined.contiguous(), scale, 1.0)
        queries, keys, values = packed.flatten(1, 2)  # (B * H, T, Dh) each
        weights = torch.bmm(queries, keys.mT)  # (B * H, T, S)
        level, factor = chance(probability)
        ctx.drawn, ctx.factor = (new_seed() if probability else 0, level), factor
        kept = torch.empty_like(weights) if probability else None
        run(
            "soften",
            at(weights, LOW, rows * heads, length, length),
            None if kept is None else kept.data_ptr(),
            at(mask, torch.float32, rows if len(mask) > 1 else 1, 1, length, length),
            len(mask),
            *ctx.drawn,
            *(rows, heads, length, length),
        )
        mixed = torch.bmm(weights if kept is None else kept, values)
        ctx.save_for_backward(packed, weights, scale)
        return _join(mixed.view(1, rows, heads, length, width), None, factor).view(rows, length, heads * width)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        packed, weights, scale = ctx.saved_tensors
        _, rows, heads, length, width = packed.shape
        queries, keys, values = packed.flatten(1, 2)
        grad = grads[0].contiguous().view(rows, length, 1, heads, width)
        by_output = _split(grad, None, ctx.factor)[0].flatten(0, 1)  # (B * H, T, Dh)
        by_scores = torch.bmm(by_output, values.mT)  # of the kept weights, then of the scores
        kept = torch.empty_like(weights) if ctx.factor != 1.0 else None
        run(
            "by_scores",
            at(by_scores, LOW, *weights.shape),
            at(weights, LOW, *weights.shape),
            None if kept is None else kept.data_ptr(),
            *ctx.drawn,
            *(rows * heads * length, length),
        )
        found = torch.empty_like(packed)
        by_queries, by_keys, by_values = found.flatten(1, 2)
        torch.bmm((weights if kept is None else kept).mT, by_output, out=by_values)
        torch.bmm(by_scores, keys, out=by_queries)
        torch.bmm(by_scores.mT, queries, out=by_keys)
        return _join(found, scale, 1.0), None, None, None


def _split(inside: Tensor, scale: Tensor | None, factor: float) -> Tensor:
    """(B, T, parts, H, Dh) -> (parts, B, H, T, Dh), the first part times the heads' scale and the factor."""
    rows, length, parts, heads, width = inside.shape
    apart = inside.new_empty(parts, rows, heads, length, width)
    run("split_heads", at(inside, LOW, *inside.shape), apart.data_ptr(), _at(scale, heads), factor, *inside.shape)
    return apart


def _join(apart: Tensor, scale: Tensor | None, factor: float) -> Tensor:
    """The way back of `_split`, scaled alike."""
    parts, rows, heads, length, width = apart.shape
    inside = apart.new_empty(rows, length, parts, heads, width)
    run("join_heads", at(apart, LOW, *apart.shape), inside.data_ptr(), _at(scale, heads), factor, *inside.shape)
    return inside


def _at(scale: Tensor | None, heads: int) -> int | None:
    return None if scale is None else at(scale, torch.float32, heads, 1, 1)
