"""nanoGPT (github.com/karpathy/nanoGPT), its model and optimizer out of the user's clone, driven in its best mode.

Its own train.py knows no bf16 on a CPU and is a script; the loop here does what it does (random windows of one file
of ids, AdamW as `configure_optimizers` sets it up, gradients clipped at 1, cosine with warm-up) with the same
settings, and bf16 and torch.compile beside its plain CPU mode.
"""

import contextlib
import importlib.util
import io
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tinylm.bench import measure
from tinylm.benchmarks.serve import Step
from tinylm.benchmarks.shape import Shape, stream
from tinylm.host.memory import own_peak_mib

BETAS, CLIP, WEIGHT_DECAY = (0.9, 0.99), 1.0, 0.1  # beta2 as in its configurations of small models
MIN_LR, WARM_UP = 0.1, 0.05  # shares of the peak and of the updates
Batch = tuple[torch.Tensor, torch.Tensor]


def load(clone: str) -> Any:
    """Its model.py as a module. FileNotFoundError where the folder is no clone of it."""
    spec = importlib.util.spec_from_file_location("nanogpt_model", Path(clone) / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class NanoGPT:
    """Its model and optimizer at a shape. mode: fp32 | bf16 | bf16+compile"""

    def __init__(self, clone: str, shape: Shape, mode: str, device: Any = "cpu", lr: float = 1e-3) -> None:
        theirs = load(clone)
        self.shape, self.mode, self.device = shape, mode, torch.device(device)
        config = theirs.GPTConfig(
            block_size=shape.context, vocab_size=shape.vocab, n_layer=shape.layers, n_head=shape.heads,
            n_embd=shape.width, dropout=shape.dropout, bias=False,
        )  # fmt: skip
        with contextlib.redirect_stdout(io.StringIO()):
            self.raw = theirs.GPT(config).to(device)
            self.optimizer = self.raw.configure_optimizers(WEIGHT_DECAY, lr, BETAS, self.device.type)
        self.model: Callable[..., Any] = torch.compile(self.raw) if mode.endswith("compile") else self.raw

    def autocast(self) -> Any:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.mode != "fp32")

    def update(self, batch: Batch, lr: float | None = None) -> None:
        """One step of its loop; the gradients are dropped as the next one begins, so that both sides end alike."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["lr"] if lr is None else lr
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            _, loss = self.model(*batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.raw.parameters(), CLIP)
        self.optimizer.step()
        loss.item()  # it prints the loss of every step by default

    def windows(self, ids: np.ndarray) -> Batch:
        """A batch of windows at random places."""
        starts = torch.randint(len(ids) - self.shape.context, (self.shape.batch,)).numpy()
        found = torch.from_numpy(ids[starts[:, None] + np.arange(self.shape.context + 1)].astype(np.int64))
        return found[:, :-1].contiguous().to(self.device), found[:, 1:].contiguous().to(self.device)


def learning_rate(update: int, updates: int, peak: float) -> float:
    """Linear warm-up, then a cosine that ends with the run, at a tenth of the peak."""
    warm = max(1, round(WARM_UP * updates))
    if update < warm:
        return peak * (update + 1) / (warm + 1)
    way = (update - warm) / max(1, updates - warm)
    return peak * (MIN_LR + (1.0 - MIN_LR) * 0.5 * (1.0 + math.cos(math.pi * way)))


def make(setup: Mapping[str, Any]) -> Step:
    """setup: clone, shape, mode; requests as those of `our_training`."""
    torch.set_num_threads(setup["threads"])
    torch.manual_seed(1)
    shape = Shape(**setup["shape"])
    peer = NanoGPT(setup["clone"], shape, setup["mode"], setup.get("device", "cpu"))
    ids = stream(shape, 64 * shape.step_tokens)

    def update() -> None:
        peer.update(peer.windows(ids))

    def step(request: Mapping[str, Any]) -> dict[str, Any]:
        if "memory" in request:
            process = own_peak_mib()
            return {"peak_mib": measure.peak_mib(update, peer.device, before=update), "process_mib": process}
        measure.synchronize(peer.device)
        start = time.perf_counter()
        for _ in range(request["updates"]):
            update()
        measure.synchronize(peer.device)
        return {"seconds": time.perf_counter() - start, "tokens": request["updates"] * shape.step_tokens}

    return step
