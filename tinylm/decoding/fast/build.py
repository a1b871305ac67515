"""Compiling the decoding step once per machine, with whatever C++ compiler there is."""

import ctypes
import errno
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tinylm.files import atomic_path, write_bytes

FOLDER = Path(__file__).parent
HEADERS = [FOLDER / f"{name}.h" for name in ("products", "attention", "choosing", "team", "pass")]
UNITS = [FOLDER / "choosing.cpp", FOLDER / "step.cpp"]
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
TRIES = (("-fopenmp",), ())  # without OpenMP the step has one thread


class CannotCompile(Exception):
    """No compiler, or it refused; the message says which in one line."""


def compiler() -> str | None:
    """The C++ compiler: the environment's CXX, or the first of the usual names."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    return next(filter(None, map(shutil.which, names)), None)


def _processor() -> str:
    """What -march=native stands for: a folder may be shared by machines."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text("utf-8", "replace").splitlines() if cpuinfo.exists() else []
    return next((line for line in lines if line.startswith(("flags", "Features"))), sys.platform)


def library_path() -> Path:
    """Where this source, compiled by this compiler for this processor, lies or will lie. Raises CannotCompile."""
    name = compiler() or ""
    made = str(os.stat(name).st_mtime_ns) if name else ""
    parts = [*(source.read_text("utf-8") for source in (*HEADERS, *UNITS)), *FLAGS, name, made, _processor()]
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tinylm"
    except RuntimeError:
        raise CannotCompile("no home folder to keep it in; the environment's XDG_CACHE_HOME may name another") from None
    return folder / f"step-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:20]}.so"


def _is_whole(path: Path) -> bool:
    """Whether the SHA-256 that ends the file is that of the rest: a damaged library ends the process by a signal."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return content[-32:] == hashlib.sha256(content[:-32]).digest()


def is_compiled() -> bool:
    """Whether `library` would return at once. Raises CannotCompile."""
    return _is_whole(library_path())


def compile_library() -> Path:
    """Compile, unless it was done before; some seconds. Raises CannotCompile."""
    target, name = library_path(), compiler()
    if _is_whole(target):
        return target
    if name is None:
        raise CannotCompile("no C++ compiler found (c++, g++, clang++ or the environment's CXX)")
    errors = ""
    for extra in TRIES:
        try:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with atomic_path(target) as new:
                command = [name, *FLAGS, *extra, *map(str, UNITS), "-o", str(new)]
                done = subprocess.run(command, capture_output=True, text=True, timeout=300)
                if done.returncode:
                    raise CannotCompile
                with open(new, "r+b") as handle:
                    handle.write(hashlib.sha256(handle.read()).digest())  # the loader leaves it alone
        except CannotCompile:
            errors = next((line for line in done.stderr.splitlines() if "error" in line), f"exit {done.returncode}")
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotCompile(f"{name}: {error}") from None
        else:
            return target
    raise CannotCompile(f"{name}: {errors}")


def last_failure() -> str:
    """What the last try in the background met, in one line; empty where there is none. Raises CannotCompile."""
    try:
        return _note().read_text("utf-8")
    except (OSError, UnicodeError):
        return ""


def _note() -> Path:
    return library_path().with_suffix(".txt")


def compile_in_background() -> None:
    """Have it compiled by a process of its own, for the next command; nothing waits for it. Raises OSError."""
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
    path = compile_library()
    if path.stat().st_uid not in (0, os.getuid()):
        raise CannotCompile(f"{path} belongs to another user")
    try:
        found = ctypes.CDLL(str(path))
    except OSError as error:
        raise CannotCompile(str(error)) from None
    number, pointer = ctypes.c_int64, ctypes.c_void_p
    found.tinylm_step.restype, found.tinylm_step.argtypes = number, [pointer, pointer]
    found.tinylm_largest.restype = number
    found.tinylm_largest.argtypes = [pointer, number, number, pointer, number]
    found.tinylm_draw.restype = None
    found.tinylm_draw.argtypes = [pointer, number, number, pointer, ctypes.c_double, pointer, number]
    found.tinylm_finite.restype, found.tinylm_finite.argtypes = number, [pointer, number, number]
    found.tinylm_bf16.restype = number
    return found


if __name__ == "__main__":
    try:
        compile_library()
    except CannotCompile as met:
        write_bytes(_note(), str(met).encode())
    else:
        _note().unlink(missing_ok=True)
