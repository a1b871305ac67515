"""The package's C++ code, compiled once per machine; everything also works without a compiler."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tinylm.base.files import copy_file

FLAGS = ("-std=c++17", "-O3", "-march=native", "-shared", "-fPIC")


class CannotCompile(Exception):
    """There is no compiler, or it failed; the message gives the reason in one line."""


def compiler() -> str | None:
    """The C++ compiler: the environment's CXX, or the first of the usual names."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    return next(filter(None, map(shutil.which, names)), None)


def _processor() -> str:
    """What -march=native means here: the cache folder may be shared by several machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:  # no Linux
        lines = []
    return next((line for line in lines if line.startswith(("flags", "Features"))), sys.platform)


@dataclass(frozen=True)
class Library:
    """A shared library of these sources; tries: sets of further flags, of which the first that compiles is used."""

    name: str
    units: tuple[Path, ...]
    headers: tuple[Path, ...] = ()
    flags: tuple[str, ...] = ()
    tries: tuple[tuple[str, ...], ...] = ((),)

    def path(self) -> Path:
        """Where these sources, compiled by this compiler for this processor, are or will be. Raises CannotCompile."""
        name = compiler() or ""
        made = str(os.stat(name).st_mtime_ns) if name else ""
        sources = [source.read_text("utf-8") for source in (*self.headers, *self.units)]
        parts = [*sources, *FLAGS, *self.flags, str(self.tries), name, made, _processor()]
        try:
            folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tinylm"
        except RuntimeError:
            raise CannotCompile(
                "there is no home folder to keep it in; set XDG_CACHE_HOME to another folder"
            ) from None
        digest = hashlib.sha256(chr(0).join(parts).encode()).hexdigest()
        return folder / f"{self.name}-{digest[:20]}.so"

    def compile(self) -> Path:
        """Compile, unless that was done before; takes some seconds. Raises CannotCompile."""
        target = self.path()
        if target.is_file():
            return target
        name = compiler()
        if name is None:
            raise CannotCompile("no C++ compiler found (c++, g++, clang++ or $CXX)")
        problem = ""
        for extra in self.tries:
            command = [name, *FLAGS, *self.flags, *extra, *map(str, self.units)]
            try:
                problem = _build(command, target)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise CannotCompile(f"{name}: {error}") from None
            if not problem:
                return target
        raise CannotCompile(f"{name}: {problem}")

    def load(self) -> ctypes.CDLL:
        """The library, compiled if needed. Raises CannotCompile."""
        path = self.compile()
        if path.stat().st_uid not in (0, os.getuid()):
            raise CannotCompile(f"{path} belongs to another user")
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            raise CannotCompile(str(error)) from None


def _build(command: list[str], target: Path) -> str:
    """Compile into `target`, which appears only when it is complete.

    Returns the compiler's first error; without one, an empty text.
    """
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / target.name
        done = subprocess.run(
            [*command, "-o", str(built)], capture_output=True, text=True, timeout=300
        )
        if done.returncode:
            errors = (line for line in done.stderr.splitlines() if "error" in line)
            return next(errors, f"exit {done.returncode}")
        copy_file(built, target)
    return ""
