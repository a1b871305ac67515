"""The writes, fsyncs and renames that files.py makes, and a fault at one of them."""

import errno
import io
import os
import signal
from collections.abc import Callable
from typing import Any

from tinylm.base import files

CALLS = ("fsync", "replace", "rename")


def full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Disk:
    """Calls `fault` before the N-th call and before every later one."""

    def __init__(self, number: int, fault: Callable[[], None]) -> None:
        self.number = number
        self.fault = fault
        self.calls = 0

    def install(self, patch: Any) -> None:
        for name in CALLS:
            patch.setattr(os, name, self._counted(getattr(os, name)))
        patch.setattr(files, "open", self._open, raising=False)

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self.count()
            return call(*arguments)

        return counted

    def _open(self, path: Any, mode: str = "r", **text: Any) -> Any:
        if "w" not in mode:
            return open(path, mode, **text)
        disk = self

        class Raw(io.FileIO):
            def write(self, data: Any) -> int:
                disk.count()
                return super().write(data)

        handle = io.BufferedWriter(Raw(path, "w"))
        return handle if "b" in mode else io.TextIOWrapper(handle, **text)

    def count(self) -> None:
        """Before a call."""
        self.calls += 1
        if self.calls >= self.number:
            self.fault()
