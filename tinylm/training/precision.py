"""What `auto` means in section `train` on this machine."""

import dataclasses
from typing import Any

import torch

from tinylm.training.compiling import why_not_compiled
from tinylm.training.settings import TrainSettings


def multiplies_in_bf16(device: Any) -> bool:
    """Whether the device (a torch.device) has instructions for products of bfloat16, without which it is not fast."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def choose_products(precision: str, device: Any) -> None:
    """Let CUDA's float32 products round their inputs to tf32 if that was asked for, and only then."""
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"


def resolved(settings: TrainSettings, device: Any) -> TrainSettings:
    """The settings with each `auto` replaced by the value chosen for this device; others stay as they are."""
    if settings.precision == "auto":
        settings = dataclasses.replace(settings, precision="bf16" if multiplies_in_bf16(device) else "fp32")
    if settings.precision == "tf32" and device.type != "cuda":
        settings = dataclasses.replace(settings, precision="fp32")
    return dataclasses.replace(settings, compile="false" if why_not_compiled(settings, device) else "true")
