"""Gradient checkpointing: a block's activations are discarded and computed again in backward."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tinylm.model.compiled import RunBlock, run_block
from tinylm.model.transformer import in_order

Block = Callable[[Tensor, Tensor], Tensor]


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, block: Block, x: Tensor, mask: Tensor) -> Tensor:
        ctx.block = block
        ctx.device = x.device.type
        ctx.is_autocast = torch.is_autocast_enabled(ctx.device)
        ctx.dtype = torch.get_autocast_dtype(ctx.device)
        ctx.random_state = torch.get_rng_state()
        ctx.device_state = torch.cuda.get_rng_state(x.device) if ctx.device == "cuda" else None
        ctx.save_for_backward(x, mask)
        return block(x, mask)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor | None, None]:
        x, mask = ctx.saved_tensors
        x = x.detach().requires_grad_()
        devices = [] if ctx.device_state is None else [x.device]
        # the same dropout as in the forward pass; the generators' streams stay unchanged
        with torch.random.fork_rng(devices):
            torch.set_rng_state(ctx.random_state)
            if ctx.device_state is not None:
                torch.cuda.set_rng_state(ctx.device_state, x.device)
            autocast = torch.autocast(ctx.device, dtype=ctx.dtype, enabled=ctx.is_autocast)
            with torch.enable_grad(), autocast:
                y = ctx.block(x, mask)
        torch.autograd.backward(y, grads[0])  # adds to the gradients of the block's parameters, too
        return None, x.grad, None


class RunRecomputing:
    """`TinyLM`'s run_blocks that computes activations inside blocks a second time.

    none: nothing is recomputed. blocks: each block except the last, from its input. The backward
    pass begins with the last block, so recomputing it would save memory only during the loss.
    blocks+loss: the last block as well. sqrt: only about sqrt(N) of N inputs are stored. The
    backward pass recomputes the inputs in a group, then each of its blocks except the last.

    run: runs a block in training. Scoring, whose batches have other shapes, does without it.
    """

    def __init__(self, mode: str, run: RunBlock = run_block) -> None:
        self.mode = mode
        self._run = run

    def __call__(self, blocks: Sequence[nn.Module], x: Tensor, mask: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return in_order(blocks, x, mask)
        return _run([partial(self._run, block) for block in blocks], x, mask, self.mode)


def _run(blocks: Sequence[Block], x: Tensor, mask: Tensor, mode: str) -> Tensor:
    group = math.isqrt(len(blocks)) if mode == "sqrt" else 1
    if group > 1:
        for start in range(0, len(blocks), group):
            run_group = partial(_run, blocks[start : start + group], mode="blocks")
            x = recompute(run_group, x, mask)
        return x
    for block, count in zip(blocks, recompute_counts(len(blocks), mode), strict=True):
        x = recompute(block, x, mask) if count else block(x, mask)
    return x


def recompute_counts(layers: int, mode: str) -> list[int]:
    """How often the backward pass recomputes each block."""
    if mode == "none":
        return [0] * layers
    if mode == "blocks+loss":
        return [1] * layers
    group = math.isqrt(layers) if mode == "sqrt" else 1
    if group == 1:
        return [1] * (layers - 1) + [0]
    counts = []
    for number in range(1, layers + 1):
        is_last = number % group == 0 or number == layers
        counts.append(1 if is_last else 2)
    return counts


def recompute(block: Block, x: Tensor, mask: Tensor) -> Tensor:
    """block(x, mask), storing only x for the backward pass (Chen et al. 2016, sublinear memory).

    It costs one more forward pass. Every gradient is bit-identical: the random state is restored,
    so dropout draws the same numbers.
    """
    if not x.requires_grad:  # a frozen embedding: otherwise no backward pass would reach the block
        x = x.detach().requires_grad_()
    return _Recompute.apply(block, x, mask)
