"""torch.compile of the blocks (`train.compile`), for the one shape that most batches of a run have."""

import importlib.util
import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tinylm.model.transformer import Block
from tinylm.train.settings import TrainSettings


def has_compiler(device: Any) -> bool:
    """Whether torch can compile for the device: a C++ compiler on a CPU, as torch looks for it; triton on CUDA."""
    if device.type == "cuda":
        return importlib.util.find_spec("triton") is not None
    return shutil.which(os.environ.get("CXX") or "g++") is not None


def why_not_compiled(settings: TrainSettings, device: Any) -> str:
    """Why the blocks of such a run are not compiled, in words; empty if they are."""
    if settings.compile == "false":
        return "train.compile is false"
    if not has_compiler(device):
        return "torch finds no compiler (a C++ compiler, CXX or g++; on CUDA triton)"
    if settings.recompute != "none":
        return "train.recompute needs the same bits twice, which compiled passes of two kinds do not promise"
    if settings.processes > 1:
        return "several processes share a batch out unevenly, and each shape would be compiled by itself"
    if settings.compile == "auto":
        return "auto: nowhere was it measured to pay (docs/explanation/training-speed.md)"
    return ""


class RunCompiled:
    """`TinyLM`'s run_blocks: while training, a block is compiled if its input has the given shape (B, T, D).

    One compilation serves all blocks and the whole run: the ragged last batch of an epoch and evaluation never trigger
    another. Dropout is drawn by torch's compiler from torch's generator, so it differs from the plain path's.
    """

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.shape = shape
        self._forward: Callable[..., Tensor] = torch.compile(
            Block.forward, dynamic=False, fullgraph=True
        )

    def __call__(self, blocks: Sequence[nn.Module], x: Tensor, mask: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)"""
        for block in blocks:
            x = (
                self._forward(block, x, mask)
                if block.training and tuple(x.shape) == self.shape
                else block(x, mask)
            )
        return x
