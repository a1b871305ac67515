"""nanoGPT (github.com/karpathy/nanoGPT): the model and optimizer of the user's clone, driven in its best mode.

Its own train.py is a script without bf16 on a CPU. The loop here does the same with the same settings: random windows
of one file of ids, AdamW as `configure_optimizers` sets it up, gradients clipped at 1, cosine with warm-up. It adds
bf16 and torch.compile on a CPU.
"""

import contextlib
import importlib.machinery
import io
import math
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.shape import Shape
from tinylm.base.machine import multiplies_in_bf16

BETAS = (0.9, 0.99)  # as in its configurations of small models
CLIP = 1.0
WEIGHT_DECAY = 0.1
MIN_LR = 0.1  # share of the peak
WARM_UP = 0.05  # share of the updates
Batch = tuple[torch.Tensor, torch.Tensor]


def load(clone: str) -> Any:
    """Its model.py as a module. Raises FileNotFoundError if the folder is not a clone of it."""
    loader = importlib.machinery.SourceFileLoader("nanogpt_model", str(Path(clone) / "model.py"))
    module = types.ModuleType(loader.name)
    loader.exec_module(module)
    return module


def precisions() -> list[str]:
    """fp32, and bf16 if this processor supports it natively."""
    return ["fp32", "bf16"] if multiplies_in_bf16(torch.device("cpu")) else ["fp32"]


def modes(tiny: bool = False) -> list[str]:
    """nanoGPT's modes: each precision, and unless tiny, each again with torch.compile."""
    compiled = [] if tiny else [f"{name}+compile" for name in precisions()]
    return precisions() + compiled


class NanoGPT:
    """Its model, without biases, and its optimizer at a shape; mode: of `modes`."""

    def __init__(
        self, clone: str, shape: Shape, mode: str, lr: float = 1e-3, device: str = "cpu"
    ) -> None:
        theirs = load(clone)
        config = theirs.GPTConfig(
            block_size=shape.context,
            vocab_size=shape.vocab,
            n_layer=shape.layers,
            n_head=shape.heads,
            n_embd=shape.width,
            dropout=shape.dropout,
            bias=False,
        )
        self.mode = mode
        self.device = device
        with contextlib.redirect_stdout(io.StringIO()):
            self.raw = theirs.GPT(config).to(device)
            self.optimizer = self.raw.configure_optimizers(WEIGHT_DECAY, lr, BETAS, device)
        self.model: Callable[..., Any] = self.raw
        if mode.endswith("compile"):
            self.model = torch.compile(self.raw)

    def update(self, batch: Batch, lr: float | None = None) -> torch.Tensor:
        """One step of its loop; returns the loss. The gradients stay until the next step, as in ours."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["lr"] if lr is None else lr
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.mode.startswith("bf16")):
            _, loss = self.model(*batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.raw.parameters(), CLIP)
        self.optimizer.step()
        return loss


def windows(ids: np.ndarray, shape: Shape) -> Batch:
    """(inputs, targets) of windows at random places, each (batch, context) int64"""
    starts = torch.randint(len(ids) - shape.context, (shape.batch,)).numpy()
    rows = torch.from_numpy(ids[starts[:, None] + np.arange(shape.context + 1)].astype(np.int64))
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def learning_rate(update: int, updates: int, peak: float) -> float:
    """Linear warm-up, then a cosine that ends with the run, at a tenth of the peak."""
    warm = max(1, round(WARM_UP * updates))
    if update < warm:
        return peak * (update + 1) / (warm + 1)
    progress = (update - warm) / max(1, updates - warm)
    return peak * (MIN_LR + (1.0 - MIN_LR) * 0.5 * (1.0 + math.cos(math.pi * progress)))
