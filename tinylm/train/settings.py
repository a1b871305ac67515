"""Section `train`. Its imports are light, because params.yaml is checked without torch."""

import dataclasses
import json
from typing import Any

from tinylm.base.config import PARAMS_FILE, InputError, setting
from tinylm.base.machine import multiplies_in_bf16


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Section `train`."""

    layout: str = setting(choices=("stories", "stream", "windows"))
    unknown: float = setting(low=0.0, high=0.5)
    batch_size: int = setting(low=1, high=1_000_000)
    accumulation: int = setting(low=1, high=100_000)
    processes: int = setting(low=1, high=1024)
    tokens: int | None = setting(low=1, high=10**15)
    epochs: float | None = setting(above=0.0, high=1e6)
    optimizer: str = setting(choices=("adam", "adamw", "muon"))
    lr: float = setting(above=0.0, high=10.0)
    muon_lr: float = setting(above=0.0, high=10.0)
    beta1: float = setting(low=0.0, high=0.9999)
    beta2: float = setting(low=0.0, high=0.999999)
    weight_decay: float = setting(low=0.0, high=10.0)
    decay: str = setting(choices=("matrices", "all"))
    warmup: float = setting(low=0.0, high=0.99)
    schedule: str = setting(choices=("cosine", "constant"))
    final_lr: float = setting(low=0.0, high=1.0)
    clip_norm: float | None = setting(above=0.0)
    precision: str = setting(choices=("auto", "fp32", "tf32", "bf16"))
    compile: str = setting(choices=("auto", "true", "false"))
    attention: str = setting(choices=("auto", "own", "torch"))
    recompute: str = setting(choices=("none", "blocks"))
    validate_every: int = setting(low=1)
    patience: int | None = setting(low=1)
    keep_epochs: tuple[float, ...] | None = setting(above=0.0, high=1e6)
    seed: int = setting(low=0)

    def problems(self) -> list[str]:
        """Rules between the fields, each line beginning with a field's name."""
        problems = []
        if (self.tokens is None) == (self.epochs is None):
            given = f"tokens {json.dumps(self.tokens)} and epochs {json.dumps(self.epochs)}"
            problems.append(
                f"tokens: expected a number for either tokens or epochs, null for the other, got {given}"
            )
        if self.processes > self.batch_size:
            most = f"at most batch_size = {self.batch_size}, one row per process"
            problems.append(f"processes: expected {most}, got {self.processes}")
        return problems

    def update_tokens(self, context: int) -> int:
        """The tokens of an update whose rows all fill the context; none has more."""
        return self.batch_size * self.accumulation * context

    def budget(self, tokens_per_epoch: int) -> int:
        """The number of scored tokens after which the run ends."""
        if self.tokens is not None:
            return self.tokens
        return round((self.epochs or 0.0) * tokens_per_epoch)

    def resolved(self, device: Any) -> "TrainSettings":
        """The settings with each `auto` replaced by the value for this torch.device.

        tf32 is a mode of CUDA devices; elsewhere it becomes fp32. On CUDA, attention is PyTorch's
        fused one, and torch compiles blocks and loss for batches of full windows. Raises InputError
        if compile is true on a CPU.
        """
        on_card = device.type == "cuda"
        precision = self.precision
        if precision == "auto":
            precision = "bf16" if multiplies_in_bf16(device) else "fp32"
        if precision == "tf32" and not on_card:
            precision = "fp32"
        attention = self.attention
        if attention == "auto":
            attention = "torch" if on_card else "own"
        compiles = self.compile
        if compiles == "auto":
            compiles = "true" if on_card and self.layout != "stories" else "false"
        if compiles == "true" and not on_card:
            expected = "expected auto or false on a CPU"
            raise InputError(f"{PARAMS_FILE}: train.compile: {expected}, got true")
        return dataclasses.replace(self, precision=precision, attention=attention, compile=compiles)
