"""Causal attention in C++, and a wrapper around torch's fused attention."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from tinylm.kernels.train.binding import call, checked_ptr
from tinylm.kernels.train.dropout import keep_level, new_seed


class NativeAttention(torch.autograd.Function):
    """Y = dropout(softmax(scale Q K^T + causal mask)) V in bfloat16 or float32, heads concatenated.

    (B, T, 3, H, Dh) -> (B, T, H Dh). With a rope_cache (1, T, 2, Dh / 2), Q and K are rotated first, and their
    gradients are rotated back last. P is the softmax, M is 1 / (1 - dropout) where dropout keeps a weight and 0 elsewhere,
    and * is elementwise:

    dV = (P * M)^T dY;  dP = M * (dY V^T);  dS = P * (dP - sum(dP * P));  dQ = scale dS K;  dK = scale dS^T Q

    The backward pass draws M again, and recomputes P from the maximum and the denominator of each row of scores. So memory
    grows with T, not with T^2 (Dao et al. 2022, arXiv:2205.14135, algorithm 4). All arithmetic is in float32.
    """

    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, scale: float, dropout: float, rope_cache: Tensor | None
    ) -> Tensor:
        rows, length, _, heads, width = qkv.shape
        qkv = qkv.contiguous()
        output = qkv.new_empty(rows, length, heads * width)
        normalisers = torch.empty(rows, heads, length, 2, dtype=torch.float32, device="cpu")
        ctx.rope_ptr = None
        if rope_cache is not None:
            ctx.rope_ptr = checked_ptr(rope_cache, torch.float32, 1, length, 2, width // 2)
        seed = new_seed() if dropout else 0
        ctx.settings = (scale, seed, *keep_level(dropout), rows, length, heads, width)
        ctx.save_for_backward(qkv, normalisers, rope_cache)
        call(
            "attention",
            qkv.dtype,
            checked_ptr(qkv, qkv.dtype, rows, length, 3, heads, width),
            ctx.rope_ptr,
            output.data_ptr(),
            checked_ptr(normalisers, torch.float32, rows, heads, length, 2),
            *ctx.settings,
        )
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        qkv, normalisers, _ = ctx.saved_tensors
        rows, length, _, heads, width = qkv.shape
        grad_output = grads[0].contiguous()
        grad_qkv = torch.empty_like(qkv)
        call(
            "grad_attention",
            qkv.dtype,
            qkv.data_ptr(),
            ctx.rope_ptr,
            checked_ptr(grad_output, qkv.dtype, rows, length, heads * width),
            normalisers.data_ptr(),
            grad_qkv.data_ptr(),
            *ctx.settings,
        )
        return grad_qkv, None, None, None


def check_causal(mask: Tensor) -> None:
    """Raises ValueError if rows have masks of their own: fused attention ignores `mask` and applies a causal one."""
    if len(mask) != 1:
        raise ValueError(f"expected one causal mask, got {len(mask)} masks")


def torch_attention(qkv: Tensor, scale: float, dropout: float) -> Tensor:
    """torch's `scaled_dot_product_attention`, which is one kernel on CUDA.  (B, T, 3, H, Dh) -> (B, T, H Dh)"""
    queries, keys, values = qkv.permute(2, 0, 3, 1, 4)  # (B, H, T, Dh) each
    queries = queries * scale  # before the product, as in `attention_weights`
    mixed = F.scaled_dot_product_attention(
        queries, keys, values, dropout_p=dropout, is_causal=True, scale=1.0
    )
    return mixed.transpose(1, 2).flatten(2)
