"""Gradient checkpointing: activations are discarded, then recomputed in the backward pass."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

Run = Callable[[Tensor, Tensor], Tensor]  # (x, mask) -> x, of one block or of several
RunBlock = Callable[[nn.Module, Tensor, Tensor], Tensor]


def run_block(block: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
    """block(x, mask).  (B, T, D) -> (B, T, D)"""
    output: Tensor = block(x, mask)
    return output


class Checkpointing:
    """How training runs a model's blocks: `TinyLM(..., run_blocks=Checkpointing(mode))`.

    mode: which blocks are recomputed, see `segments`. run_block: runs one block.
    """

    def __init__(self, mode: str, run_block: RunBlock = run_block) -> None:
        self.mode = mode
        self._run_block = run_block

    def __call__(self, blocks: Sequence[nn.Module], x: Tensor, mask: Tensor) -> Tensor:
        """Run all blocks in order.  (B, T, D) -> (B, T, D)"""
        return self._run(blocks, self.mode, x, mask)

    def _run(self, blocks: Sequence[nn.Module], mode: str, x: Tensor, mask: Tensor) -> Tensor:
        start = 0
        for size, is_recomputed in segments(len(blocks), mode):
            segment = blocks[start : start + size]
            start += size
            if is_recomputed:
                x = recompute(partial(self._run, segment, "blocks"), x, mask)
            else:
                for block in segment:
                    x = self._run_block(block, x, mask)
        return x


def segments(layers: int, mode: str) -> list[tuple[int, bool]]:
    """Split the blocks into segments, in order: (number of blocks, whether they are recomputed).

    none: no block is recomputed.
    blocks: each block is recomputed from its input, except the last: the backward pass begins with
        it, so recomputing it would save memory only during the loss.
    blocks+loss: every block is recomputed.
    sqrt: groups of sqrt(N) blocks are recomputed from the group's input, so only about sqrt(N)
        inputs are stored. While a group is recomputed, its blocks are treated as in mode blocks.
    """
    if mode == "none":
        return [(layers, False)]
    size = math.isqrt(layers) if mode == "sqrt" else 1
    if size == 1 and mode != "blocks+loss":
        return [(1, True)] * (layers - 1) + [(1, False)]
    groups = [(size, True)] * (layers // size)
    rest = layers % size
    return [*groups, (rest, True)] if rest else groups


def recompute_counts(layers: int, mode: str) -> list[int]:
    """How many times the backward pass recomputes each block."""
    counts: list[int] = []
    for size, is_recomputed in segments(layers, mode):
        if is_recomputed:
            counts += [1 + count for count in recompute_counts(size, "blocks")]
        else:
            counts += [0] * size
    return counts


def recompute(run: Run, x: Tensor, mask: Tensor) -> Tensor:
    """run(x, mask), storing only x for the backward pass (Chen et al. 2016, sublinear memory).

    The cost is one extra forward pass. Gradients are bit-identical: the random state is restored,
    so dropout draws the same mask.
    """
    if not x.requires_grad:  # a frozen embedding: otherwise no backward pass would reach the block
        x = x.detach().requires_grad_()
    return _Recomputed.apply(run, x, mask)


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Run, x: Tensor, mask: Tensor) -> Tensor:
        ctx.run = run
        ctx.device = x.device.type
        ctx.is_autocast = torch.is_autocast_enabled(ctx.device)
        ctx.dtype = torch.get_autocast_dtype(ctx.device)
        ctx.random_state = torch.get_rng_state()
        if x.is_cuda:
            ctx.cuda_state = torch.cuda.get_rng_state(x.device)
        ctx.save_for_backward(x, mask)
        return run(x, mask)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor | None, None]:
        x, mask = ctx.saved_tensors
        x = x.detach().requires_grad_()
        cards = [x.device] if x.is_cuda else []
        with torch.random.fork_rng(cards):  # leaves the generators' states unchanged
            torch.set_rng_state(ctx.random_state)
            if x.is_cuda:
                torch.cuda.set_rng_state(ctx.cuda_state, x.device)
            autocast = torch.autocast(ctx.device, ctx.dtype, enabled=ctx.is_autocast)
            with torch.enable_grad(), autocast:
                y = ctx.run(x, mask)
        torch.autograd.backward(y, grads[0])  # accumulates the parameters' gradients, too
        return None, x.grad, None
