"""Blocks compiled by torch.compile, for training on a CUDA card."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

RunBlock = Callable[[nn.Module, Tensor, Tensor], Tensor]


def run_block(block: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
    """block(x, mask).  (B, T, D) -> (B, T, D)"""
    output: Tensor = block(x, mask)
    return output


def compiled_run_block(backend: str = "inductor") -> RunBlock:
    """`run_block` that compiles a block for each shape, once for all blocks.

    torch.compile fuses what is not a matrix product into few kernels.
    """
    options: dict[str, Any] | None = None
    if backend == "inductor":
        # Products whose sides are no multiples of 8 take several times as long on a tensor core.
        options = {"shape_padding": True, "force_shape_pad": True}
    compiled: RunBlock = torch.compile(run_block, dynamic=False, backend=backend, options=options)

    def run(block: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return compiled(block, x, mask)
        # The first pass of a recomputed block. Without gradients torch would compile other kernels,
        # whose results differ in their last bits from those of the second pass.
        with torch.enable_grad():
            return compiled(block, x.detach().requires_grad_(), mask).detach()

    return run
