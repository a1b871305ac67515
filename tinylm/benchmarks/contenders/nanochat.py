"""nanochat (github.com/karpathy/nanochat): the model and optimizer of the user's clone, by its base recipe.

Its scripts/base_train.py wants its own tokenizer and shards; the loop here does the same with the ids at hand: rates
scaled from its reference batch by a square root, decay from its reference horizon, linear warm-up and warm-down, Muon's
momentum and decay scheduled, no clipping, no dropout. Its fused optimizer steps are compiled in either mode.
"""

import contextlib
import importlib
import io
import math
import os
import sys
from collections.abc import Callable
from typing import Any

import torch

from tinylm.benchmarks.contenders.nanogpt import Batch
from tinylm.benchmarks.shape import Shape

# The defaults of its base_train.py (2026-07), its reference batch in tokens, tokens for each scaled parameter.
RATES = {"unembedding_lr": 0.008, "embedding_lr": 0.3, "scalar_lr": 0.5, "matrix_lr": 0.02}
DECAY, BATCH, RATIO = 0.28, 2**19, 12
WARM_UP, WARM_DOWN, LAST = (
    40,
    0.65,
    0.05,
)  # updates; share of the updates; share of the rate at the end
_DTYPES = {"bf16": "bfloat16", "fp32": "float32"}


def load(clone: str, mode: str) -> Any:
    """Its module nanochat.gpt, calculating in the mode's precision, which is decided once in a process."""
    os.environ["NANOCHAT_DTYPE"] = _DTYPES[mode.removesuffix("+compile")]
    sys.path.insert(0, clone)
    return importlib.import_module("nanochat.gpt")


def _scaled(model: Any) -> int:
    """The parameters that its scaling laws count."""
    counts = model.num_scaling_params()
    return counts["transformer_matrices"] + counts["lm_head"]


class NanoChat:
    """Its model and optimizer at a shape, on the CPU, for so many updates.

    mode: fp32 | bf16 | bf16+compile; lr, decay: shares of the rates and of the decay that its rules give.
    """

    def __init__(
        self, clone: str, shape: Shape, mode: str, updates: int, lr: float, decay: float
    ) -> None:
        theirs = load(clone, mode)
        self.updates = updates
        sizes = {"sequence_len": shape.context, "n_layer": shape.layers, "n_head": shape.heads}
        config = theirs.GPTConfig(
            **sizes,
            vocab_size=shape.vocab,
            n_kv_head=shape.heads,
            n_embd=shape.width,
            window_pattern="L",
        )
        with contextlib.redirect_stdout(io.StringIO()):
            self.raw = theirs.GPT(config)
            self.raw.init_weights()
            with torch.device("meta"):  # of its depth 12: the horizon that its decay is tuned for
                reference = theirs.GPT(
                    theirs.GPTConfig(n_layer=12, n_head=6, n_kv_head=6, n_embd=768)
                )
            batch = (shape.step_tokens / BATCH) ** 0.5
            self.decay = (
                decay * DECAY * batch * RATIO * _scaled(reference) / (updates * shape.step_tokens)
            )
            rates = {name: rate * batch * lr for name, rate in RATES.items()}
            self.optimizer = self.raw.setup_optimizer(**rates, weight_decay=self.decay)
        self.model: Callable[..., Any] = (
            torch.compile(self.raw) if mode.endswith("compile") else self.raw
        )

    def update(self, batch: Batch, number: int) -> None:
        """The update of this number, from 0."""
        self.raw.zero_grad(set_to_none=True)
        loss = self.model(*batch)
        loss.backward()
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * multiplier(number, self.updates)
            if group["kind"] == "muon":
                group["momentum"] = momentum(number, self.updates)
                group["weight_decay"] = (
                    self.decay * 0.5 * (1 + math.cos(math.pi * number / self.updates))
                )
        self.optimizer.step()
        loss.item()


def multiplier(update: int, updates: int) -> float:
    """Share of the rate: linear warm-up, constant, linear warm-down."""
    down = round(WARM_DOWN * updates)
    if update < WARM_UP:
        return (update + 1) / WARM_UP
    if update <= updates - down:
        return 1.0
    left = (updates - update) / down
    return left + (1 - left) * LAST


def momentum(update: int, updates: int) -> float:
    """Muon's: from 0.85 to 0.97 in 400 updates, then down to 0.90 with the rate."""
    down = round(WARM_DOWN * updates)
    if update < 400:
        return 0.85 + (0.97 - 0.85) * update / 400
    way = max(0.0, (update - (updates - down)) / down)
    return 0.97 * (1 - way) + 0.90 * way
