"""Device and SIMD detection."""

from typing import Any

from tinylm.base.config import InputError


def pick_device(name: str) -> Any:
    """torch.device for auto | cpu | cuda; auto is CUDA if torch has a card. Raises InputError."""
    import torch

    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise InputError(
            "params.yaml: runtime.device: expected auto or cpu, got cuda; torch finds no CUDA GPU"
        )
    return torch.device("cuda" if name != "cpu" and available else "cpu")


def multiplies_in_bf16(device: Any) -> bool:
    """Whether the device (a torch.device) has instructions for products of bfloat16.

    Without them bf16 is slower than fp32.
    """
    import torch

    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    has_instructions = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return has_instructions and torch.backends.cpu.get_cpu_capability().startswith("AVX512")
