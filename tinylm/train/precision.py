"""What `auto` means in section `train` on this machine."""

import dataclasses
from typing import Any

import torch

from tinylm.base.machine import cpu_multiplies_in_bf16
from tinylm.train.compiling import why_not_compiled
from tinylm.train.settings import TrainSettings


def multiplies_in_bf16(device: Any) -> bool:
    """Whether products of bfloat16 use the device's (a torch.device's) own instructions: without them bf16 is slow."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return cpu_multiplies_in_bf16()


def choose_products(precision: str, device: Any) -> None:
    """Let CUDA's float32 products round their inputs to tf32 if that was asked for, and only then."""
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"


def resolved(settings: TrainSettings, device: Any) -> TrainSettings:
    """The settings with each `auto` replaced by the value chosen for this device; others stay as they are."""
    if settings.precision == "auto":
        settings = dataclasses.replace(
            settings, precision="bf16" if multiplies_in_bf16(device) else "fp32"
        )
    if settings.precision == "tf32" and device.type != "cuda":
        settings = dataclasses.replace(settings, precision="fp32")
    return dataclasses.replace(
        settings, compile="false" if why_not_compiled(settings, device) else "true"
    )
