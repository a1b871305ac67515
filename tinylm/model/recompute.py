"""Gradient checkpointing: activations inside a block are thrown away and computed again in the backward pass."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, block: Callable[[Tensor, Tensor], Tensor], x: Tensor, mask: Tensor) -> Tensor:
        ctx.block, ctx.device = block, x.device.type
        ctx.autocast = torch.is_autocast_enabled(ctx.device), torch.get_autocast_dtype(ctx.device)
        ctx.random_state = torch.get_rng_state()
        ctx.device_state = torch.cuda.get_rng_state(x.device) if ctx.device == "cuda" else None
        ctx.save_for_backward(x, mask)
        return block(x, mask)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor | None, None]:
        x, mask = ctx.saved_tensors
        x = x.detach().requires_grad_()
        devices = [] if ctx.device_state is None else [x.device]
        with torch.random.fork_rng(devices):  # the same dropout as in the forward pass, the stream left as it is
            torch.set_rng_state(ctx.random_state)
            if ctx.device_state is not None:
                torch.cuda.set_rng_state(ctx.device_state, x.device)
            enabled, dtype = ctx.autocast
            with torch.enable_grad(), torch.autocast(ctx.device, dtype=dtype, enabled=enabled):
                y = ctx.block(x, mask)
        torch.autograd.backward(y, grads[0])  # adds to the block's parameters' gradients by itself
        return None, x.grad, None


def run_blocks(blocks: Sequence[Callable[[Tensor, Tensor], Tensor]], x: Tensor, mask: Tensor, kept: str) -> Tensor:
    """All blocks in turn. kept: `none` recomputes nothing, `blocks` each block but the last from its input.

    The backward pass begins with the last block, so that throwing away what it keeps would save memory for the loss
    only; `blocks+loss` does that as well. sqrt: of N blocks only about sqrt(N) inputs are kept; a group computes its
    blocks' inputs again, then each block but its last.
    """
    group = math.isqrt(len(blocks)) if kept == "sqrt" else 1
    if group > 1:
        for start in range(0, len(blocks), group):
            part = blocks[start : start + group]
            x = recompute(partial(run_blocks, part, kept="blocks"), x, mask)
        return x
    for block, again in zip(blocks, times_again(len(blocks), kept), strict=True):
        x = recompute(block, x, mask) if again else block(x, mask)
    return x


def times_again(layers: int, kept: str) -> list[int]:
    """How often the backward pass computes each block again."""
    if kept in ("none", "blocks+loss"):
        return [int(kept != "none")] * layers
    group = math.isqrt(layers) if kept == "sqrt" else 1
    if group == 1:
        return [1] * (layers - 1) + [0]
    return [1 if number % group == 0 or number == layers else 2 for number in range(1, layers + 1)]


def recompute(block: Callable[[Tensor, Tensor], Tensor], x: Tensor, mask: Tensor) -> Tensor:
    """block(x, mask), keeping only x for the backward pass (Chen et al. 2016, "sublinear memory cost").

    Memory of the kept activations falls from all of a block to its input; the price is one more forward pass.
    Every gradient is equal to the bit: the random state is restored, so that dropout draws the same.
    """
    if not x.requires_grad:  # a frozen embedding: without this no backward pass would reach the block's parameters
        x = x.detach().requires_grad_()
    return _Recompute.apply(block, x, mask)
