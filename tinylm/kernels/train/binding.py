"""Native kernels of training: C++ that makes one pass over memory instead of torch's several; compiled once.

Each equals an operation of `tinylm.model.ops` on a CPU, in bfloat16 or float32, but is rounded less often. OpenMP is the one
that torch has loaded, since the loader takes a library of the same name once. So both share one team of threads.
"""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from tinylm.kernels.library import Library

FOLDER = Path(__file__).parent
KERNELS = Library(
    "training",
    units=tuple(FOLDER / f"{name}.cpp" for name in ("attention", "flat", "loss", "norm")),
    headers=(FOLDER / "numbers.h", FOLDER / "product.h"),
    flags=("-fopenmp", "-fno-math-errno", "-fno-trapping-math"),
    tries=(("-mprefer-vector-width=512",), ()),
)
_KINDS = {"p": ctypes.c_void_p, "n": ctypes.c_int64, "s": ctypes.c_uint64, "f": ctypes.c_float}
# Arguments in order: pointer, whole number, seed, float; the number of threads always comes last.
_ARGUMENTS = {
    "attention": "ppppfsnfnnnn",
    "grad_attention": "pppppfsnfnnnn",
    "add_dropped": "pppsnfn",
    "dropped": "ppsnfn",
    "nats": "ppppnn",
    "norm": "ppppppfnnn",
    "grad_norm": "pppppppnnnn",
}


NUMBERS = (torch.bfloat16, torch.float32)  # in the order of TINYLM_EXPORT


@functools.cache
def functions() -> dict[tuple[str, torch.dtype], Callable[..., None]]:
    """The compiled kernels by name and type of their numbers. Raises CannotCompile."""
    shared = KERNELS.load()
    table: dict[tuple[str, torch.dtype], Callable[..., None]] = {}
    for name, kinds in _ARGUMENTS.items():
        prototype = ctypes.CFUNCTYPE(None, *(_KINDS[kind] for kind in kinds + "n"))
        addresses = (ctypes.c_void_p * len(NUMBERS)).in_dll(shared, f"tinylm_{name}")
        for number, address in zip(NUMBERS, addresses, strict=True):
            table[name, number] = prototype(address)
    return table


def call(name: str, number: torch.dtype, *arguments: int | float | None) -> None:
    """Call a kernel for this type of numbers, with torch's number of threads."""
    functions()[name, number](*arguments, torch.get_num_threads())


def checked_ptr(tensor: Tensor, dtype: torch.dtype, *shape: int) -> int:
    """The address of a tensor's data. Raises TypeError unless it has this type and shape and is contiguous on a CPU."""
    if (
        tensor.dtype != dtype
        or tensor.shape != shape
        or not tensor.is_contiguous()
        or tensor.device.type != "cpu"
    ):
        raise TypeError(
            f"a kernel expected a contiguous {dtype} {shape} on cpu, got {tensor.dtype} "
            f"{tuple(tensor.shape)} with strides {tensor.stride()} on {tensor.device}"
        )
    return tensor.data_ptr()
