"""What a run computes with on this machine: precision, attention, compilation, CUDA graphs."""

import dataclasses
from typing import Any

import torch

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.machine import cpu_multiplies_in_bf16
from tinylm.train.settings import TrainSettings

NEEDED = {  # for true
    "compile": "the device is CUDA",
    "cuda_graphs": "one process trains on CUDA with recompute: none",
}


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
    one, and torch compiles blocks and loss for batches of full windows. There a single process also
    replays an update as a CUDA graph, unless it recomputes blocks, which sets the random state.
    Raises InputError if compile or cuda_graphs is true where it cannot be.
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
    can_record = on_card and settings.recompute == "none" and settings.processes == 1
    has_full_windows = settings.layout != "stories"
    return dataclasses.replace(
        settings,
        precision=precision,
        attention=attention,
        compile=_decided(settings, "compile", on_card, default=has_full_windows),
        cuda_graphs=_decided(settings, "cuda_graphs", can_record, default=True),
    )


def _decided(settings: TrainSettings, key: str, is_possible: bool, default: bool) -> str:
    """The value of a key that may be auto. Raises InputError for a true that is not possible."""
    choice: str = getattr(settings, key)
    if choice == "auto":
        return "true" if default and is_possible else "false"
    if choice == "true" and not is_possible:
        raise InputError(
            f"{PARAMS_FILE}: train.{key} = true; allowed: auto or false, unless {NEEDED[key]}"
        )
    return choice
