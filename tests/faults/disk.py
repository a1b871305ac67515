"""A disk that is looked at before every write, fsync and rename, and that fails there in a fork of the process."""

import errno
import io
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tinylm.base import files

ERRORS = (errno.ENOSPC, errno.EIO)
CALLS = ("fsync", "replace", "rename")
KILLED, LEAKED = 137, 99


def tree(folder: Path) -> dict[str, Path]:
    """Every file below the folder, by its path there; links to the code are not followed."""
    found = (Path(top) / name for top, _, names in os.walk(folder) for name in names)
    return {str(path.relative_to(folder)): path for path in found if not path.is_symlink()}


def remake(folder: Path, source: Path, put: Callable[[Path, Path], object]) -> None:
    """Make the files below `folder` those below `source`; put(from, to) brings one that is missing."""
    for path in tree(folder).values():
        path.unlink()
    for name, path in tree(source).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        put(path, folder / name)


class Disk:
    """Counts the calls that files.py makes; at each one `look` is called, then a fork of the process for each error.

    In the fork the call fails, and so does every later write where the disk is full; the stage's end there is judged
    by `failed(code, text, what)`, then the folder is made again what it was. `keep`: the number of the call before
    which the folder is copied to `state`, as a kill there would leave it.
    """

    def __init__(
        self, folder: Path, aside: Path, look: Callable[[], None], failed: Callable[..., None]
    ) -> None:
        self.folder, self.aside, self.look, self.failed = folder, aside, look, failed
        self.calls: list[str] = []
        self.errors: tuple[tuple[int, ...], ...] = (ERRORS,)  # of the calls in turn
        self.keep, self.state = 0, aside / "state"
        self.error: OSError | None = None  # in a fork

    def install(self, patch: Any) -> None:
        for name in CALLS:
            patch.setattr(os, name, self._counted(name, getattr(os, name)))
        patch.setattr(files, "open", self._open, raising=False)

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self.point(name)
            return call(*arguments)

        return counted

    def _open(self, path: Any, mode: str = "r", **text: Any) -> Any:
        if "w" not in mode:
            return open(path, mode, **text)
        disk = self

        class Raw(io.FileIO):
            def write(self, data: Any) -> int:
                disk.point("write")
                return super().write(data)

        handle = io.BufferedWriter(Raw(path, "w"))
        return handle if "b" in mode else io.TextIOWrapper(handle, **text)

    def point(self, name: str) -> None:
        """Before a call."""
        if self.error is not None:
            if name == "write":
                raise OSError(self.error.errno, self.error.strerror)
            return
        self.calls.append(name)
        self.look()
        if len(self.calls) == self.keep:
            shutil.copytree(self.folder, self.state, symlinks=True)
        for number in self.errors[len(self.calls) % len(self.errors)]:
            self._fail(OSError(number, os.strerror(number)), name)

    def _fail(self, error: OSError, name: str) -> None:
        mirror, told = self.aside / "mirror", self.aside / "told"
        shutil.rmtree(mirror, ignore_errors=True)
        mirror.mkdir(parents=True)
        remake(mirror, self.folder, os.link)
        child = os.fork()
        if child == 0:
            self.error = error
            sys.stdout = sys.stderr = open(told, "w", encoding="utf-8")  # noqa: SIM115 (`leave` closes it)
            raise error
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.failed(
            code,
            told.read_text("utf-8"),
            f"call {len(self.calls)}, {name}, {errno.errorcode[error.errno or 0]}",
        )
        remake(self.folder, mirror, os.link)

    def leave(self, code: int) -> None:
        """To be called where the stage has ended: a fork goes no further."""
        if self.error is not None:
            sys.stderr.flush()
            os._exit(code)


class Death(Disk):
    """A disk on which the process is killed by SIGKILL before its N-th call."""

    def __init__(self, number: int) -> None:
        super().__init__(Path(), Path(), lambda: None, lambda *_: None)
        self.number = number

    def point(self, name: str) -> None:
        self.calls.append(name)
        if len(self.calls) == self.number:
            os.kill(os.getpid(), signal.SIGKILL)
