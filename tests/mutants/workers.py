"""Copies of the working tree in which mutants are run, each as a fork of this process, which has imported the heavy
libraries already; tests and modules of ours are imported anew by each."""

import contextlib
import gc
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

# What every test needs.
import numpy  # noqa: F401
import pytest
import torch  # noqa: F401
import yaml  # noqa: F401
from safetensors import torch as _  # noqa: F401

from tests.mutants.plugin import Chosen

ROOT = Path(__file__).parents[2]
UNUSED = ("cacheprovider", "xdist", "timeout", "unraisableexception", "threadexception")  # of pytest: they take time
OPTIONS = ["-q", "--tb=no", "-mnot full", *(f"-pno:{plugin}" for plugin in UNUSED)]  # what `make test` alone kills
SECONDS, FACTOR, BYTES = 5, 3, 4 << 30
OUTCOMES = {0: "survived", 1: "killed", 2: "killed"}  # of pytest: all passed, a test failed, the import broke


def new_copy(folder: Path) -> Path:
    """The working tree as it is, without results."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    for name in listed.stdout.rstrip("\0").split("\0"):
        if (ROOT / name).is_file() and name.partition("/")[0] not in ("metrics", "plots"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def forked(copy: Path, work: Callable[[], int], seconds: float) -> int:
    """Start `work` in a process of its own inside the copy, with a limit on processor time and memory; its id."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    try:
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        os.chdir(copy)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + BYTES
        resource.setrlimit(resource.RLIMIT_AS, (used, used))
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "tinylm", "stages")]:
            del sys.modules[name]
        sys.path[:] = [str(copy), *(p for p in sys.path if p and Path(p) != ROOT)]
        _guard_kill()
        os._exit(work())
    finally:
        os._exit(70)


def _guard_kill() -> None:
    """A mutant may send signals to its own processes only."""
    kill, group = os.kill, os.getpgid(0)

    def guarded(pid: int, number: int) -> None:
        if number and (pid <= 1 or os.getpgid(pid) != group):
            raise PermissionError(f"a mutant sends signal {number} to {pid}")
        kill(pid, number)

    os.kill = guarded


def _end(child: int) -> None:
    """Kill what a mutant has left of its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


class Workers:
    """Copies of the working tree, one mutant at a time in each."""

    def __init__(self, folder: Path, count: int) -> None:
        self.free = [new_copy(folder / f"copy{number}") for number in range(count)]
        self.all = list(self.free)
        self.running: dict[int, tuple[Path, float, Callable[[str], None]]] = {}
        self.changes = 0
        gc.collect()
        gc.freeze()  # what is here now stays out of every mutant's collections

    def put(self, copy: Path, module: str, source: str) -> None:
        """Write a module; its time is new each time, so that no compiled file of another mutant is taken for it."""
        self.changes += 1
        (copy / module).write_text(source, encoding="utf-8")
        os.utime(copy / module, (1e9 + self.changes, 1e9 + self.changes))

    def start(self, module: str, source: str, tests: list[str], seconds: float, done: Callable[[str], None]) -> None:
        """Run the tests on one mutant as soon as a copy is free; `done` hears the outcome."""
        while not self.free:
            self.wait()
        copy = self.free.pop()
        self.put(copy, module, source)
        limit = SECONDS + FACTOR * seconds
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))

        def work() -> int:
            return int(pytest.main([*OPTIONS, "-x", f"--basetemp={copy}.tmp", *files], plugins=[Chosen(tests)]))

        self.running[forked(copy, work, limit)] = copy, time.monotonic() + 60 + 4 * limit, done

    def wait(self) -> None:
        """Until one ends, or runs past its time."""
        while True:
            for child, (copy, deadline, done) in self.running.items():
                pid, status = os.waitpid(child, os.WNOHANG)
                late = time.monotonic() > deadline
                if not pid and late:
                    _end(child)
                    os.waitpid(child, 0)
                if pid or late:
                    _end(child)
                    del self.running[child]
                    self.free.append(copy)
                    return done(outcome(status) if pid else "timeout")
            time.sleep(0.005)


def outcome(status: int) -> str:
    """What a process's end says of its mutant."""
    if os.WIFSIGNALED(status):
        return "timeout" if os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL) else "killed"
    return OUTCOMES.get(os.WEXITSTATUS(status), "broken")
