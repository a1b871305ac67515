"""What a machine computes with: its device, and the instructions that torch and oneDNN use on its processor."""

import os
from typing import Any

from tinylm.base.config import InputError

_VECTORS = ("avx", "amx", "f16c", "fma", "neon", "sve")
# oneDNN's levels, lowest first, as ONEDNN_MAX_CPU_ISA names them, and what torch calls the instructions that each adds.
_ONEDNN = {
    "sse41": ("sse4_1",),
    "avx": ("avx",),
    "avx2": ("avx2",),
    "avx2_vnni": ("avx_vnni",),
    "avx2_vnni_2": ("avx_vnni_int8", "avx_ne_convert"),
    "avx512_core": ("avx512_f", "avx512_bw", "avx512_vl", "avx512_dq"),
    "avx512_core_vnni": ("avx512_vnni",),
    "avx512_core_bf16": ("avx512_bf16",),
    "avx512_core_fp16": ("avx512_fp16",),
    "avx512_core_amx": ("amx_int8", "amx_bf16"),
    "avx512_core_amx_fp16": ("amx_fp16",),
}
_LEVELS = list(_ONEDNN)


def pick_device(name: str) -> Any:
    """torch.device for auto | cpu | cuda; auto is CUDA if torch sees a card. Raises InputError."""
    import torch

    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise InputError(
            "params.yaml: runtime.device = 'cuda'; allowed here: auto | cpu (torch sees no CUDA device)"
        )
    return torch.device("cuda" if name != "cpu" and available else "cpu")


def _known() -> dict[str, Any]:
    import torch

    return dict(torch.cpu.get_capabilities())


def _onednn_level() -> int:
    """Number of the level in `_LEVELS` that oneDNN uses: the processor's, or the environment's limit if it is lower.

    -1 on a processor of another kind. As oneDNN does, a limit that is no level is ignored.
    """
    known = _known()
    own = max(
        (n for n, needs in enumerate(_ONEDNN.values()) if all(known.get(name) for name in needs)),
        default=-1,
    )
    given = (
        os.environ.get(name, "").lower() for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
    )
    limit = next(filter(None, given), "")
    return min(own, _LEVELS.index(limit)) if limit in _LEVELS else own


def instructions() -> dict[str, str]:
    """The processor's vector instructions, and the levels of them that torch and oneDNN use.

    The environment may lower these: ATEN_CPU_CAPABILITY, ONEDNN_MAX_CPU_ISA.
    """
    import torch

    vectors = sorted(
        name for name, there in _known().items() if there is True and name.startswith(_VECTORS)
    )
    level = _onednn_level()
    return {
        "instructions": " ".join(vectors),
        "torch_level": torch.backends.cpu.get_cpu_capability().lower(),
        "onednn_level": _LEVELS[level] if level >= 0 else "default",
    }


def cpu_multiplies_in_bf16() -> bool:
    """Whether torch's and oneDNN's products of bfloat16 use the processor's own instructions for them."""
    import torch

    there = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    torch_uses = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return there and torch_uses and _onednn_level() >= _LEVELS.index("avx512_core_bf16")
