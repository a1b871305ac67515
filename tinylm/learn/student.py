"""Loads student code: from the student's own folder, and without lasting effects on the grader."""

import ast
import builtins
import functools
import importlib
import math
import random
import sys
import warnings
from collections.abc import Callable, Iterable
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np
import torch

from tinylm.learn import expect
from tinylm.learn.course import WORK
from tinylm.learn.expect import Wrong

# Global settings that student code may change: how each is read and set.
_SETTINGS: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (np.geterr, lambda values: np.seterr(**values)),
)
# Student code may put other functions into these; oracles call them.
_OWNERS: tuple[Any, ...] = (builtins, math, torch, torch.Tensor, torch.nn.functional, expect)


def refuse(source: bytes, path: str, avoid: Iterable[str]) -> None:
    """Raise Wrong at the first import or attribute of a file that it may not use."""
    file = Path(path).name
    for node in ast.walk(ast.parse(source, path)):
        name = ""
        if isinstance(node, ast.Attribute):
            name = node.attr
        elif isinstance(node, ast.alias):
            name = node.name
        elif isinstance(node, ast.ImportFrom):
            name = node.module or ""
        if set(name.split(".")) & set(avoid):
            line = f"{file}, line {node.lineno} uses {name}"  # type: ignore[attr-defined]
            raise Wrong([line], "the exercise is to write this part yourself")


class _Loader(SourceFileLoader):
    """Loads a file of the student's folder, from its source."""

    def __init__(self, avoid: frozenset[str], fullname: str, path: str) -> None:
        super().__init__(fullname, path)
        self.avoid = avoid

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        refuse(source, path, self.avoid)
        return compile(source, path, "exec", dont_inherit=True)


def load_student(file: Path, avoid: Iterable[str] = ()) -> ModuleType:
    """The student's file as a module of the package `exercises`, which is its folder alone.

    Its neighbours can be imported as `exercises.NAME` or NAME. Raises Wrong at the first name that
    one of them may not use, and whatever the code raises.
    """
    folder = file.parent
    loader = functools.partial(_Loader, frozenset(avoid))

    def finder(entry: str) -> FileFinder:
        if not Path(entry).is_relative_to(folder):
            raise ImportError(entry)
        return FileFinder(entry, (loader, SOURCE_SUFFIXES))  # type: ignore[arg-type]

    for name in list(sys.modules):
        if name.split(".")[0] == WORK.name:
            del sys.modules[name]
    package = ModuleType(WORK.name)
    package.__path__ = [str(folder)]
    sys.modules[WORK.name] = package
    sys.path_hooks.insert(0, finder)
    sys.path_importer_cache.clear()
    sys.path.append(str(folder))  # last, so that a file named random.py hides nothing
    return importlib.import_module(f"{WORK.name}.{file.stem}")


class Surroundings:
    """Global state as it is now, and the functions that oracles call.

    modules: what student code may not change, besides functions of Python and PyTorch.
    """

    def __init__(self, *modules: ModuleType) -> None:
        self.names = [(owner, dict(vars(owner))) for owner in (*_OWNERS, *modules)]
        self.filters = list(warnings.filters)

    def settings(self) -> list[Any]:
        """What `restore` takes: the value of each of _SETTINGS."""
        return [read() for read, _ in _SETTINGS]

    def restore(self, settings: list[Any]) -> None:
        """Put everything back."""
        for owner, values in self.names:
            current = vars(owner)
            for name, value in values.items():
                if current.get(name, _SETTINGS) is not value:
                    setattr(owner, name, value)
            if isinstance(owner, type):  # a new method hides one of a parent class
                for name in set(current) - set(values):
                    delattr(owner, name)
        for (read, write), value in zip(_SETTINGS, settings, strict=True):
            if read() != value:
                write(value)
        torch.set_default_device(None)
        warnings.filters[:] = self.filters  # type: ignore[index]

    def restored_after(self, call: Any) -> Any:
        """A function of the student's, after whose calls everything is put back."""
        if isinstance(call, type) or not callable(call):
            return call

        @functools.wraps(call)
        def wrapped(*values: Any, **named: Any) -> Any:
            settings = self.settings()  # a check may call it without gradients
            try:
                return call(*values, **named)
            finally:
                self.restore(settings)

        return wrapped


def seed() -> None:
    """Let student code draw the same random numbers in every process."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  students' code may use it
    torch.manual_seed(0)
