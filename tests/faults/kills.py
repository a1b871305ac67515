"""Kill each stage at every write, fsync and rename: `python -m tests.faults.kills [STAGE ...]` (make kills).

For N = 1, 2, 3 ... until the stage comes to its end: a process of its own is killed (SIGKILL) before its N-th call,
every file under a final name must be whole, and the stage started again must end with the bytes of an undisturbed run.
"""

import argparse
import io
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.disk import Disk
from tests.faults.finished import finished, outs, same_bytes, sums, whole
from tests.support.stages import ORDER, finish, run

SAID_EVERY_S = 30.0


class Death(Disk):
    """A disk on which the process is killed before its N-th call."""

    number = 0

    def point(self, name: str) -> None:
        self.calls.append(name)
        if len(self.calls) == self.number:
            os.kill(os.getpid(), signal.SIGKILL)


def in_fork(job: Callable[[], int], log: Path) -> int:
    """The exit code of job() in a fork of this process, minus a signal's number; what it prints goes to `log`."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(target, 1), os.dup2(target, 2)
            sys.stdout, sys.stderr = (
                io.TextIOWrapper(io.FileIO(number, "w"), write_through=True) for number in (1, 2)
            )
            code = job()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_everywhere(source: Path, expected: dict[str, str], command: str, every: int = 1) -> int:
    """Kill the stage at each (every n-th) of its calls in copies of `source`; the number of kills.

    Raises AssertionError where a file under a final name is not whole, or other bytes come out. Leaves the current
    folder as it was.
    """
    kills, here, said_at = 0, Path.cwd(), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        log, ready, folder = Path(name) / "log", Path(name) / "ready", Path(name) / "run"
        shutil.copytree(source, ready, symlinks=True)
        for path in outs(command):
            shutil.rmtree(ready / path) if (ready / path).is_dir() else (ready / path).unlink(
                missing_ok=True
            )

        def die_at(number: int) -> int:
            os.chdir(folder)
            disk: Any = Death(folder, Path(name), lambda: None, lambda *_: None)
            disk.number = number
            disk.install(pytest.MonkeyPatch())
            return run(command)

        number, code = 1, -signal.SIGKILL
        while code == -signal.SIGKILL:
            shutil.copytree(ready, folder, symlinks=True)
            code = in_fork(lambda number=number: die_at(number), log)
            what = f"{command}, killed at call {number}"
            said = log.read_text("utf-8")[-2000:]
            assert code in (0, -signal.SIGKILL), f"{what}: exit code {code}\n{said}"
            if code:
                kills += 1
                for file, path in finished(folder).items():
                    assert whole(path, file, expected), f"{what}: {file} is not whole"
                code_after = in_fork(lambda: die_at(0), log)
                assert code_after == 0, (
                    f"{what}: then exit code {code_after}\n{log.read_text('utf-8')[-2000:]}"
                )
            same_bytes(folder, expected)
            shutil.rmtree(folder)
            number += every
            if time.monotonic() - said_at >= SAID_EVERY_S:
                said_at = time.monotonic()
                print(f"{command}: {kills} kills so far", flush=True)
    assert Path.cwd() == here
    return kills


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="(default: all)")
    chosen = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # in a fork, as the kills are: a server of processes that this one starts would be no child of the next fork
        if in_fork(lambda: finish(folder) or 0, folder / "log"):  # type: ignore[func-returns-value]
            raise SystemExit(
                f"the undisturbed run failed\n{(folder / 'log').read_text('utf-8')[-2000:]}"
            )
        expected = sums(folder)
        print(
            f"an undisturbed run is done; now {len(chosen.stages or ORDER)} stages, each of some minutes",
            flush=True,
        )
        print(f"{'stage':14} | kills | what came out", flush=True)
        total = 0
        for command in chosen.stages or ORDER:
            kills = kill_everywhere(folder, expected, command)
            total += kills
            print(
                f"{command:14} | {kills:5} | every file whole; then the bytes of an undisturbed run",
                flush=True,
            )
        print(f"{'all':14} | {total:5} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
