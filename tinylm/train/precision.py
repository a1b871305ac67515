"""What a run computes with on this machine: precision, attention, compilation, CUDA graphs."""

import dataclasses
from typing import Any

import torch

from tinylm.base.config import PARAMS_FILE, InputError
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

    tf32 is a mode of CUDA devices; elsewhere it becomes fp32. On CUDA, attention is PyTorch's fused
    one, and torch compiles blocks and loss for batches of full windows. Raises InputError if compile
    is true on a CPU.
    """
    on_card = device.type == "cuda"
    precision = settings.precision
    if precision == "auto":
        precision = "bf16" if multiplies_in_bf16(device) else "fp32"
    if precision == "tf32" and not on_card:
        precision = "fp32"
    attention = settings.attention
    if attention == "auto":
        attention = "torch" if on_card else "own"
    compiles = settings.compile
    if compiles == "auto":
        compiles = "true" if on_card and settings.layout != "stories" else "false"
    if compiles == "true" and not on_card:
        raise InputError(f"{PARAMS_FILE}: train.compile: expected auto or false on a CPU, got true")
    return dataclasses.replace(settings, precision=precision, attention=attention, compile=compiles)


def records_graphs(settings: TrainSettings, device: Any) -> bool:
    """Whether updates are replayed as CUDA graphs.

    Recomputed blocks set the random state, and several processes exchange gradients: neither can be
    recorded.
    """
    return device.type == "cuda" and settings.recompute == "none" and settings.processes == 1
