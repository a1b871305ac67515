"""What `auto` means in section `train` on this machine."""

import dataclasses
from typing import Any

import torch

from tinylm.base.machine import cpu_multiplies_in_bf16
from tinylm.train.settings import TrainSettings


def multiplies_in_bf16(device: Any) -> bool:
    """Whether the device (a torch.device) has instructions for products of bfloat16.

    Without them bf16 is slower than fp32.
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return cpu_multiplies_in_bf16()


def resolved(settings: TrainSettings, device: Any) -> TrainSettings:
    """The settings with each `auto` replaced by the value for this device.

    tf32 is a mode of CUDA devices; elsewhere it becomes fp32. Blocks are compiled by torch on CUDA
    only, and not if they are recomputed, since that needs the same bits twice.
    """
    precision = settings.precision
    if precision == "auto":
        precision = "bf16" if multiplies_in_bf16(device) else "fp32"
    if precision == "tf32" and device.type != "cuda":
        precision = "fp32"
    compiled = (
        settings.compile != "false" and device.type == "cuda" and settings.recompute == "none"
    )
    return dataclasses.replace(
        settings, precision=precision, compile="true" if compiled else "false"
    )
