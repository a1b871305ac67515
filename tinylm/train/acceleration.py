"""The native kernels of `tinylm.kernels.train`, where this copy and this machine have them.

Training itself is plain PyTorch: without that package, or without a C++ compiler, the formulas of
`tinylm.model.ops` do the same work.
"""

from typing import Any

import torch

from tinylm.model.ops import REFERENCE, Ops

kernels: Any
try:
    from tinylm.kernels.train import ops as kernels
except ModuleNotFoundError:
    kernels = None


def training_ops(precision: str, device: torch.device, fused_attention: bool = False) -> Ops:
    """The fastest operations for a run in fp32, tf32 or bf16 on the device."""
    if kernels is None:
        return REFERENCE
    return kernels.training_ops(precision, device, fused_attention)


def why_not_native(precision: str, device: torch.device) -> str:
    """Why such a run computes with torch alone, in words; empty if native kernels are used."""
    if kernels is None:
        return "the package tinylm/kernels/train is not here"
    return kernels.why_not_native(precision, device)


def kernels_version(precision: str, device: torch.device) -> str:
    """`torch`, or the compiled kernels by their SHA-256."""
    if kernels is None:
        return "reference"
    if why_not_native(precision, device):
        return "torch"
    return f"native {kernels.kernels_sha256()}"
