"""Dropout, alone and in a residual connection, each in one pass over memory.

A seed determines the mask, so the backward pass draws it again instead of storing it. Word n of the random stream depends
on seed and n alone (SplitMix64; Steele, Lea and Flood 2014), so threads can draw any piece of it in any order. Each word
gives four numbers of 16 bits.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tinylm.kernels.train.binding import call, checked_ptr
from tinylm.model.thread_random import dropout_generator

_LEVELS = 1 << 16


def keep_level(dropout: float) -> tuple[int, float]:
    """(lowest signed 16-bit number that is kept, factor on what is kept); rounds dropout to 1/65536."""
    dropped = round(dropout * _LEVELS)
    return dropped - _LEVELS // 2, _LEVELS / (_LEVELS - dropped)


def new_seed() -> int:
    """A seed for the dropout mask of one tensor, drawn from the thread's generator."""
    return int(torch.randint(1 << 62, (), generator=dropout_generator(), device="cpu"))


class NativeDropout(torch.autograd.Function):
    """dropout(x) in float32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dropout: float) -> Tensor:
        ctx.drawn = new_seed(), *keep_level(dropout)
        return _dropped(x, ctx.drawn)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _dropped(grads[0], ctx.drawn), None


def _dropped(
    x: Tensor, drawn: tuple[int, int, float], dtype: torch.dtype = torch.float32
) -> Tensor:
    x = x.contiguous()
    y = torch.empty_like(x, dtype=dtype)
    x_ptr = checked_ptr(x, torch.float32, *x.shape)
    call("dropped", dtype, x_ptr, y.data_ptr(), *drawn, x.numel())
    return y


class NativeAddDropout(torch.autograd.Function):
    """x + dropout(y) for x in float32, y in bfloat16 or float32."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, dropout: float) -> Tensor:
        ctx.drawn = new_seed(), *keep_level(dropout)
        ctx.dtype = y.dtype
        x, y = x.contiguous(), y.contiguous()
        z = torch.empty_like(x)
        x_ptr = checked_ptr(x, torch.float32, *x.shape)
        y_ptr = checked_ptr(y, y.dtype, *x.shape)
        call("add_dropped", y.dtype, x_ptr, y_ptr, z.data_ptr(), *ctx.drawn, x.numel())
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        grad = grads[0].contiguous()
        return grad, _dropped(grad, ctx.drawn, ctx.dtype), None
