"""Blocks compiled by torch.compile, for training on a CUDA card."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


def run_block(block: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
    """block(x, mask).  (B, T, D) -> (B, T, D)"""
    output: Tensor = block(x, mask)
    return output


class CompiledBlocks:
    """`TinyLM`'s run_blocks that compiles a block for each shape, once for all blocks.

    torch.compile fuses what is not a matrix product into few kernels. Scoring, whose batches have
    other shapes, runs the blocks as they are.
    """

    def __init__(self, backend: str = "inductor") -> None:
        options: dict[str, Any] | None = None
        if backend == "inductor":
            # Products whose sides are no multiples of 8 take several times as long on a tensor core.
            options = {"shape_padding": True, "force_shape_pad": True}
        self._run: Callable[..., Tensor] = torch.compile(
            run_block, dynamic=False, backend=backend, options=options
        )

    def __call__(self, blocks: Sequence[nn.Module], x: Tensor, mask: Tensor) -> Tensor:
        run = self._run if torch.is_grad_enabled() else run_block
        for block in blocks:
            x = run(block, x, mask)
        return x
