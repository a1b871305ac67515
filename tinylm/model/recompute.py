"""Gradient checkpointing: activations are discarded, then recomputed in the backward pass."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tinylm.model.thread_random import dropout_generator

Run = Callable[[Tensor, Tensor], Tensor]  # (x, mask) -> x
RunBlock = Callable[[nn.Module, Tensor, Tensor], Tensor]


def run_block(block: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
    """block(x, mask).  (B, T, D) -> (B, T, D)"""
    output: Tensor = block(x, mask)
    return output


class Checkpointing:
    """How training runs a model's blocks: `TinyLM(..., run_blocks=Checkpointing("blocks"))`.

    mode: none, or blocks: each block is recomputed from its input, except the last. The backward
    pass begins with that one, so recomputing it would save memory only during the loss.
    run_block: runs one block.
    """

    def __init__(self, mode: str, run_block: RunBlock = run_block) -> None:
        self.recomputes = mode == "blocks"
        self._run_block = run_block

    def __call__(self, blocks: Sequence[nn.Module], x: Tensor, mask: Tensor) -> Tensor:
        """Run all blocks in order.  (B, T, D) -> (B, T, D)"""
        for block in blocks:
            run = partial(self._run_block, block)
            if self.recomputes and block is not blocks[-1]:
                x = recompute(run, x, mask)
            else:
                x = run(x, mask)
        return x


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
        ctx.random_state = dropout_generator().get_state()
        if x.is_cuda:
            ctx.cuda_state = torch.cuda.get_rng_state(x.device)
        ctx.save_for_backward(x, mask)
        return run(x, mask)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor | None, None]:
        x, mask = ctx.saved_tensors
        x = x.detach().requires_grad_()
        cards = [x.device] if x.is_cuda else []
        generator = dropout_generator()
        later_state = generator.get_state()
        with torch.random.fork_rng(cards):  # leaves the cards' generators unchanged
            generator.set_state(ctx.random_state)
            if x.is_cuda:
                torch.cuda.set_rng_state(ctx.cuda_state, x.device)
            autocast = torch.autocast(ctx.device, ctx.dtype, enabled=ctx.is_autocast)
            with torch.enable_grad(), autocast:
                y = ctx.run(x, mask)
        generator.set_state(later_state)
        torch.autograd.backward(y, grads[0])  # accumulates the parameters' gradients, too
        return None, x.grad, None
