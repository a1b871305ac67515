"""Adam's step and the sum of squares of gradients as native kernels, for float32 tensors on a CPU."""

import ctypes
import functools
from pathlib import Path

import torch
from torch import Tensor

from tinylm.kernels.library import Library
from tinylm.kernels.train.binding import checked_ptr

ADAM = Library(
    "adam",
    units=(Path(__file__).with_name("adam.cpp"),),
    flags=("-fopenmp", "-fno-math-errno", "-fno-trapping-math"),
    tries=(("-mprefer-vector-width=512",), ()),
)
_PIECE = 1 << 14  # as in adam.cpp


class Rates(ctypes.Structure):
    """The numbers of one Adam update; eps and lr include the first moment's correction."""

    _fields_ = (
        *((name, ctypes.c_float) for name in ("lr", "beta1", "beta2", "eps", "decay", "scale")),
        ("decoupled", ctypes.c_int32),
    )


@functools.cache
def library() -> ctypes.CDLL:
    """The compiled kernels, loaded. Raises CannotCompile."""
    shared, pointer, number = ADAM.load(), ctypes.c_void_p, ctypes.c_int64
    shared.tinylm_adam.restype = shared.tinylm_squares.restype = None
    shared.tinylm_adam.argtypes = [*[pointer] * 4, ctypes.POINTER(Rates), number, number]
    shared.tinylm_squares.argtypes = [pointer, pointer, number, number]
    return shared


def step(rates: Rates, *tensors: Tensor) -> None:
    """One update in place of (parameter, gradient, first moment, second moment)."""
    places = (checked_ptr(tensor, torch.float32, *tensors[0].shape) for tensor in tensors)
    library().tinylm_adam(*places, rates, tensors[0].numel(), torch.get_num_threads())


def square(x: Tensor) -> Tensor:
    """Sum of squares in float64, the same for any number of threads."""
    sums = torch.empty(-(-x.numel() // _PIECE), dtype=torch.float64)
    place = checked_ptr(x, torch.float32, *x.shape)
    library().tinylm_squares(place, sums.data_ptr(), x.numel(), torch.get_num_threads())
    return sums.sum()
