"""Normalisation, forward and backward in one pass over each row."""

from typing import Any

import torch
from torch import Tensor

from tinylm.kernels.training.binding import at, run

_KINDS = ("layer", "rms", "std")


class LoopedNormalise(torch.autograd.Function):
    """`norms._Normalise` for x in float32 and a result in float32 or bfloat16; gain and bias are float32 throughout."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gain: Tensor, bias: Tensor | None, eps: float, kind: str, low: torch.dtype | None
    ) -> Tensor:
        x, width = x.contiguous(), len(gain)
        rows = x.numel() // width
        ctx.kind, ctx.low = _KINDS.index(kind), low
        normed, y = (torch.empty_like(x, dtype=low or x.dtype) for _ in range(2))
        inverse = x.new_empty(rows)
        stretch = x.new_empty(rows if kind == "std" else 0)
        full = torch.float32
        held = at(x, full, *x.shape[:-1], width), at(gain, full, width), None if bias is None else at(bias, full, width)
        made = normed.data_ptr(), y.data_ptr(), inverse.data_ptr(), stretch.data_ptr()
        run("normalise", *held, *made, eps, ctx.kind, _is_low(low), rows, width)
        ctx.save_for_backward(normed, inverse, stretch, gain)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        normed, inverse, stretch, gain = ctx.saved_tensors
        grad, rows = grads[0].contiguous(), len(inverse)
        by_x = torch.empty_like(grad, dtype=torch.float32)
        by_gain = torch.empty_like(gain)
        by_bias = torch.empty_like(gain) if ctx.needs_input_grad[2] else None
        held = at(grad, normed.dtype, *normed.shape), *(t.data_ptr() for t in (normed, inverse, stretch, gain))
        made = by_x.data_ptr(), by_gain.data_ptr(), None if by_bias is None else by_bias.data_ptr()
        run("normalise_back", *held, *made, ctx.kind, _is_low(ctx.low), rows, len(gain))
        return by_x, by_gain, by_bias, None, None, None


def _is_low(low: torch.dtype | None) -> bool:
    if low not in (None, torch.bfloat16):
        raise TypeError(f"a norm in {low}; allowed: float32 or bfloat16")
    return low is not None
