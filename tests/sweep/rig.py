"""A small clone in which sweeps really run, what they recorded, and the same runs by plain DVC."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.support import clone as support
from tests.support.clone import Clone, new_clone

STAGES = ("download", "vocab", "train", "evaluate")
TINY = {
    "seeds.more": [],
    "train.tokens": 20000,
    "runtime.snapshot_every_s": 0.2,
    "runtime.log_every_s": 1.0,
}


def lab(path: Path, **more: Any) -> Clone:
    """A clone with parameters for runs of a few seconds; more: `section__key=value`."""
    old = dict(support.SMALL)
    support.SMALL.update(TINY | {key.replace("__", "."): value for key, value in more.items()})
    try:
        return new_clone(path)
    finally:
        support.SMALL.clear()
        support.SMALL.update(old)


def start(clone: Clone, *words: str, log: Path | None = None) -> subprocess.Popen[bytes]:
    """`tinylm sweep WORDS` in a process group of its own; what it prints goes to `log`."""
    with open(log or clone.path.parent / "sweep.log", "ab") as handle:
        return subprocess.Popen(
            [sys.executable, "-m", "tinylm.cli", "sweep", *words],
            cwd=clone.path,
            env=clone.environment(),
            stdout=handle,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def sweep(clone: Clone, *words: str, code: int | None = 0) -> str:
    """`tinylm sweep WORDS` to its end; what it printed."""
    said = plain(clone, sys.executable, "-m", "tinylm.cli", "sweep", *words)
    assert code is None or said.returncode == code, said.stdout
    return said.stdout


def plain(clone: Clone, *words: str) -> subprocess.CompletedProcess[str]:
    """A command as a user types it: none of its processes is forked from one of the tests', as `clone.run` has it."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        words,
        cwd=clone.path,
        env=clone.environment(PATH=path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def locks(clone: Clone) -> dict[str, dict[str, Any]]:
    """{experiment: its dvc.lock, the stages that were run}: hashes of all that went in and came out."""
    refs = clone.run("git", "for-each-ref", "--format=%(refname)", "refs/exps").stdout.split()
    named = [ref for ref in refs if ref.count("/") == 4]
    found = {}
    for ref in named:
        stages = yaml.safe_load(clone.run("git", "show", f"{ref}:dvc.lock").stdout)["stages"]
        found[ref.rpartition("/")[2]] = {name: stages[name] for name in STAGES if name in stages}
    assert len(found) == len(named)
    return found


def serially(clone: Clone, values: dict[str, Any], to: str = "evaluate") -> dict[str, Any]:
    """The dvc.lock of the same run by `dvc exp run` in a clone with a cache of its own."""
    words = [word for key, value in values.items() for word in ("-S", f"{key}={value}")]
    clone.dvc("exp", "run", *words, to)
    stages = yaml.safe_load((clone.path / "dvc.lock").read_text())["stages"]
    return {name: stages[name] for name in STAGES[: STAGES.index(to) + 1]}


def workers(process: subprocess.Popen[bytes]) -> tuple[list[psutil.Process], list[psutil.Process]]:
    """(the workers of a sweep, the stages that they run)."""
    with contextlib.suppress(psutil.NoSuchProcess):
        own = [
            child
            for child in psutil.Process(process.pid).children()
            if "tinylm.sweep.worker" in child.cmdline()
        ]
        return own, [stage for worker in own for stage in worker.children()]
    return [], []


def kill_at_random(
    process: subprocess.Popen[bytes], kills: int, longest_s: float, seed: int
) -> int:
    """So many SIGKILLs, each after a random time to a random worker or stage; how many were dealt until the end."""
    chance, dealt = random.Random(seed), 0
    while dealt < kills and process.poll() is None:
        time.sleep(chance.uniform(0.1, longest_s))
        own, stages = workers(process)
        victims = chance.choice((own, stages)) or own
        if victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                chance.choice(victims).kill()
                dealt += 1
    return dealt


def lose_host(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the sweep, its workers and their stages at once."""
    own, stages = workers(process)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for victim in (*own, *stages):
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
    process.wait()
