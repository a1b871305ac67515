"""A small clone in which sweeps really run, their records, and the same runs by plain DVC."""

import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from tests.support import clone as support
from tests.support.clone import Clone, new_clone
from tests.support.stages import is_measured

STAGES = ("download", "vocab", "train", "evaluate")
TINY = {
    "seeds.more": [],
    "train.tokens": 20000,
    "runtime.snapshot_every_s": 0.2,
}


def lab(path: Path) -> Clone:
    """A clone with parameters for runs of a few seconds."""
    with mock.patch.dict(support.SMALL, TINY):
        return new_clone(path)


def start(clone: Clone, *words: str, log: Path) -> "subprocess.Popen[bytes]":
    """`tinylm sweep WORDS` in a process group of its own; its output is appended to `log`."""
    with open(log, "ab") as handle:
        return subprocess.Popen(
            [sys.executable, "-m", "tinylm.cli", "sweep", *words],
            cwd=clone.path,
            env=clone.environment(),
            stdout=handle,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def sweep(clone: Clone, *words: str, code: int = 0) -> str:
    """`tinylm sweep WORDS` to its end; its output."""
    log = clone.path.parent / "sweep.log"
    log.unlink(missing_ok=True)
    assert start(clone, *words, log=log).wait(timeout=600) == code, log.read_text()
    return log.read_text()


def locks(clone: Clone) -> dict[str, dict[str, Any]]:
    """{experiment: its dvc.lock, the stages that were run}, see `comparable`."""
    refs = clone.run("git", "for-each-ref", "--format=%(refname)", "refs/exps").stdout.split()
    experiments = {ref.rpartition("/")[2]: ref for ref in refs if ref.count("/") == 4}
    result = {}
    for name, ref in experiments.items():
        stages = yaml.safe_load(clone.run("git", "show", f"{ref}:dvc.lock").stdout)["stages"]
        result[name] = comparable(stages)
    return result


def comparable(stages: dict[str, Any]) -> dict[str, Any]:
    """Of the stages that were run, the hashes of all inputs and outputs that equal runs share."""
    chosen = {stage: stages[stage] for stage in STAGES}
    for stage in chosen.values():
        stage["outs"] = [out for out in stage["outs"] if not is_measured(out["path"])]
    return chosen


def serially(clone: Clone, values: dict[str, Any]) -> dict[str, Any]:
    """The dvc.lock of the same run by `dvc exp run` in a clone with a cache of its own."""
    words = [word for key, value in values.items() for word in ("-S", f"{key}={value}")]
    clone.dvc("exp", "run", *words, "evaluate")
    stages = yaml.safe_load((clone.path / "dvc.lock").read_text())["stages"]
    return comparable(stages)
