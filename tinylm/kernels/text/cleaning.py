"""Plain ASCII stories made into lines of the corpus, in C++."""

import ctypes
import functools
from pathlib import Path

from tinylm.kernels.library import Library

LIBRARY = Library("clean", units=(Path(__file__).with_name("clean_blocks.cpp"),))


@functools.cache
def library() -> ctypes.CDLL:
    """The compiled functions, loaded. Raises CannotCompile."""
    shared = LIBRARY.load()
    shared.tinylm_clean.restype = ctypes.c_int64
    shared.tinylm_clean.argtypes = [
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_char_p,
        ctypes.c_int64,
    ]
    shared.tinylm_clean.argtypes += [ctypes.c_void_p] * 6
    return shared
