"""The decoding step in C++: its sources, compiling them at once or in the background, loading the library."""

import ctypes
import errno
import functools
import os
import subprocess
import sys
from pathlib import Path

from tinylm.base.files import write_bytes
from tinylm.kernels.library import CannotCompile, Library, compiler

__all__ = ["CannotCompile", "compiler"]

FOLDER = Path(__file__).parent
STEP = Library(
    "step",
    units=(FOLDER / "choosing.cpp", FOLDER / "step.cpp"),
    headers=tuple(
        FOLDER / f"{name}.h" for name in ("products", "attention", "choosing", "team", "pass")
    ),
    flags=("-fno-math-errno", "-fno-trapping-math"),
    tries=(("-fopenmp",), ()),  # without OpenMP the step has one thread
)
library_path, is_compiled, compile_library = STEP.path, STEP.is_compiled, STEP.compile


def last_failure() -> str:
    """How the last attempt in the background failed, in one line; empty if it did not. Raises CannotCompile."""
    try:
        return _note().read_text("utf-8")
    except (OSError, UnicodeError):
        return ""


def _note() -> Path:
    return library_path().with_suffix(".txt")


def compile_in_background() -> None:
    """Compile it in a separate process, for the next command; nothing waits for it. Raises OSError."""
    folder = library_path().parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    command = [sys.executable, "-m", __spec__.name]
    nowhere = subprocess.DEVNULL
    subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)


@functools.cache
def library() -> ctypes.CDLL:
    """The compiled step, loaded. Raises CannotCompile."""
    shared = STEP.load()
    number, pointer = ctypes.c_int64, ctypes.c_void_p
    shared.tinylm_step.restype, shared.tinylm_step.argtypes = number, [pointer, pointer]
    shared.tinylm_largest.restype = number
    shared.tinylm_largest.argtypes = [pointer, number, number, pointer, number]
    shared.tinylm_draw.restype = None
    shared.tinylm_draw.argtypes = [
        pointer,
        number,
        number,
        pointer,
        ctypes.c_double,
        pointer,
        number,
    ]
    shared.tinylm_finite.restype, shared.tinylm_finite.argtypes = number, [pointer, number, number]
    shared.tinylm_bf16.restype = number
    return shared


if __name__ == "__main__":
    os.nice(19)  # the text that is being generated comes first
    try:
        compile_library()
    except CannotCompile as met:
        write_bytes(_note(), str(met).encode())
    else:
        _note().unlink(missing_ok=True)
