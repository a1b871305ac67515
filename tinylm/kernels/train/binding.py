"""Calls the training kernels: C++ that makes one pass over memory where torch makes several.

Each computes an operation of `tinylm.model.ops` on a CPU, in bfloat16 or float32, but rounds less often. The kernels run on
torch's own OpenMP threads: a process loads a library only once, so they find the copy that torch has loaded.
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
# pointer, whole number, seed, float
_CTYPES = {"p": ctypes.c_void_p, "n": ctypes.c_int64, "s": ctypes.c_uint64, "f": ctypes.c_float}
# Arguments in order. All kernels have one more, the number of threads, which `call` adds.
_ARGUMENTS = {
    "attention": "ppppfsnfnnnn",
    "grad_attention": "pppppfsnfnnnn",
    "add_dropped": "pppsnfn",
    "dropped": "ppsnfn",
    "softmax_gradient": "ppppnn",
    "norm": "ppppppfnnn",
    "grad_norm": "pppppppnnnn",
}
DTYPES = (torch.bfloat16, torch.float32)  # in the order of TINYLM_EXPORT


@functools.cache
def functions() -> dict[tuple[str, torch.dtype], Callable[..., None]]:
    """The compiled kernels by name and type. Raises CannotCompile."""
    shared = KERNELS.load()
    table: dict[tuple[str, torch.dtype], Callable[..., None]] = {}
    for name, letters in _ARGUMENTS.items():
        prototype = ctypes.CFUNCTYPE(None, *(_CTYPES[letter] for letter in letters + "n"))
        addresses = (ctypes.c_void_p * len(DTYPES)).in_dll(shared, f"tinylm_{name}")
        for dtype, address in zip(DTYPES, addresses, strict=True):
            table[name, dtype] = prototype(address)
    return table


def call(name: str, dtype: torch.dtype, *arguments: int | float | None) -> None:
    """Call a kernel's version for this type, on as many threads as torch uses."""
    functions()[name, dtype](*arguments, torch.get_num_threads())


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
