"""Attention between the linear layers in C++; plus a wrapper for torch's attention."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tinylm.kernels.train.binding import call, checked_ptr
from tinylm.kernels.train.dropout import keep_level, new_seed


class NativeAttention(torch.autograd.Function):
    """dropout(softmax(scale Q K^T + mask)) V of all heads, joined, in bfloat16 or float32.  (B, T, 3, H, Dh) -> (B, T, H Dh)

    The mask is causal. Q and K are rotated first if there is a rope_cache (1, T, 2, Dh / 2), their gradients last.
    With P the weights, M the mask of those that dropout keeps and c their factor:

    dV = (P M)^T c dY;  dP = M (c dY V^T);  dS = P (dP - sum(dP P));  dQ = scale dS K;  dK = dS^T scale Q

    The backward pass draws M again, and computes P again from the logarithms of the softmax's denominators: memory
    grows with T, not with its square (Dao et al. 2022, arXiv:2205.14135, algorithm 4). Products are in float32. They
    leave out keys that no query of a tile may see, which halves the work.
    """

    @staticmethod
    def forward(
        ctx: Any, joined: Tensor, scale: float, dropout: float, rope_cache: Tensor | None
    ) -> Tensor:
        rows, length, _, heads, width = joined.shape
        joined = joined.contiguous()
        output = joined.new_empty(rows, length, heads * width)
        log_totals = torch.empty(rows, heads, length)
        ctx.rope_ptr = None
        if rope_cache is not None:
            ctx.rope_ptr = checked_ptr(rope_cache, torch.float32, 1, length, 2, width // 2)
        seed = new_seed() if dropout else 0
        ctx.numbers = (scale, seed, *keep_level(dropout), rows, length, heads, width)
        ctx.save_for_backward(joined, log_totals, rope_cache)
        call(
            "attention",
            joined.dtype,
            checked_ptr(joined, joined.dtype, rows, length, 3, heads, width),
            ctx.rope_ptr,
            output.data_ptr(),
            log_totals.data_ptr(),
            *ctx.numbers,
        )
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        joined, log_totals, _ = ctx.saved_tensors
        rows, length, _, heads, width = joined.shape
        grad_output = grads[0].contiguous()
        grad_joined = torch.empty_like(joined)
        call(
            "grad_attention",
            joined.dtype,
            joined.data_ptr(),
            ctx.rope_ptr,
            checked_ptr(grad_output, joined.dtype, rows, length, heads * width),
            log_totals.data_ptr(),
            grad_joined.data_ptr(),
            *ctx.numbers,
        )
        return grad_joined, None, None, None


def check_causal(mask: Tensor) -> None:
    """Raises ValueError for masks that differ between rows: what is fused knows the causal mask only."""
    if len(mask) != 1:
        raise ValueError(f"expected one causal mask, got {len(mask)} masks")


def torch_attention(qkv: Tensor, scale: float, dropout: float) -> Tensor:
    """`scaled_dot_product_attention` under the causal mask, which CUDA fuses.  (B, T, 3, H, Dh) -> (B, T, H Dh)"""
    queries, keys, values = qkv.permute(2, 0, 3, 1, 4)  # (B, H, T, Dh) each
    queries = queries * scale
    mixed = F.scaled_dot_product_attention(
        queries, keys, values, dropout_p=dropout, is_causal=True, scale=1.0
    )
    return mixed.transpose(1, 2).flatten(2)
