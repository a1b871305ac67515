"""Words of many stories split, numbered and counted, in C++."""

import ctypes
import functools
from pathlib import Path

from tinylm.kernels.library import Library

LIBRARY = Library("words", units=(Path(__file__).with_name("word_blocks.cpp"),))


@functools.cache
def library() -> ctypes.CDLL:
    """The compiled functions, loaded. Raises CannotCompile."""
    shared = LIBRARY.load()
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    shared.tinylm_words_new.restype, shared.tinylm_words_new.argtypes = pointer, [pointer, number]
    shared.tinylm_words_begin.argtypes = [pointer, ctypes.c_char_p, number]
    shared.tinylm_words_lines.restype = number
    shared.tinylm_words_lines.argtypes = [pointer, ctypes.c_char_p, number, number]
    shared.tinylm_words_story.argtypes = [pointer, ctypes.c_char_p, number]
    shared.tinylm_words_sizes.argtypes = [pointer, pointer]
    shared.tinylm_words_take.argtypes = [pointer, number, number, *[pointer] * 5]
    return shared
