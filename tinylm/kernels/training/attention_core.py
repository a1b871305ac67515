"""softmax(Q K^T + mask) V with its backward pass by hand, for which one tensor of (B, H, T, S) is kept."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tinylm.model.dropout import kept


class AttentionCore(torch.autograd.Function):
    """dropout(softmax(scale Q K^T + mask)) V of all heads, joined.  (B, T, 3, H, Dh) -> (B, T, H * Dh)

    In the precision of its input. What stays for the backward pass is Q, K, V and the weights, whose sign, free
    otherwise, says what dropout dropped. With P the weights, M what is kept and c the factor of the kept ones:

    dV = (P M)^T c dY;  dP = M (c dY V^T);  dS = P (dP - sum(dP P));  dQ = scale dS K;  dK = dS^T scale Q
    """

    @staticmethod
    def forward(ctx: Any, joined: Tensor, scale: Tensor, mask: Tensor, probability: float) -> Tensor:
        rows, length, _, heads, width = joined.shape
        packed = joined.permute(2, 0, 3, 1, 4).contiguous()  # (3, B, H, T, Dh)
        packed[0].mul_(scale)
        queries, keys, values = packed.flatten(1, 2)  # (B * H, T, Dh) each
        weights = torch.bmm(queries, keys.mT)  # (B * H, T, S)
        weights.view(rows, heads, length, length).add_(mask.to(weights.dtype))
        torch.softmax(weights, -1, out=weights)
        ctx.factor = 1.0
        if probability:
            chosen, ctx.factor = kept(weights, probability)  # 1 where kept, else 0
            mixed = torch.bmm(weights * chosen, values)
            weights.copysign_(chosen.sub_(0.5))
        else:
            mixed = torch.bmm(weights, values)
        ctx.save_for_backward(packed, weights, scale)
        output = joined.new_empty(rows, length, heads, width)
        return torch.mul(mixed.unflatten(0, (rows, heads)).transpose(1, 2), ctx.factor, out=output).flatten(2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        packed, signed, scale = ctx.saved_tensors
        _, rows, heads, length, width = packed.shape
        queries, keys, values = packed.flatten(1, 2)
        by_output = torch.empty_like(packed[0])
        torch.mul(grads[0].view(rows, length, heads, width).transpose(1, 2), ctx.factor, out=by_output)
        by_output = by_output.flatten(0, 1)  # (B * H, T, Dh)
        found = torch.empty_like(packed)
        by_queries, by_keys, by_values = found.flatten(1, 2)
        by_weights = torch.bmm(by_output, values.mT)
        if ctx.factor != 1.0:
            kept_ones = signed.clamp(min=0.0)
            torch.bmm(kept_ones.mT, by_output, out=by_values)
            torch.ops.aten.threshold_backward.grad_input(by_weights, signed, 0.0, grad_input=by_weights)
            weights = torch.abs(signed, out=kept_ones)
        else:
            weights = signed
            torch.bmm(weights.mT, by_output, out=by_values)
        by_scores = torch._softmax_backward_data(by_weights, weights, -1, weights.dtype)
        torch.bmm(by_scores, keys, out=by_queries)
        torch.bmm(by_scores.mT, queries, out=by_keys)
        found[0].mul_(scale)
        return found.permute(1, 3, 0, 2, 4).contiguous(), None, None, None


def fused_attention(queries: Tensor, keys: Tensor, values: Tensor, probability: float) -> Tensor:
    """torch's own core under the causal mask, on scaled queries.  3 x (B, H, T, Dh) -> (B, T, H * Dh)"""
    mixed = F.scaled_dot_product_attention(queries, keys, values, dropout_p=probability, is_causal=True, scale=1.0)
    return mixed.transpose(1, 2).flatten(2)
