"""A sweep that really runs in a small clone: experiments like any other, whatever happens to workers."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
import yaml

from tests.support import clone as support
from tests.support.clone import Clone, new_clone
from tests.support.stages import is_measured

STAGES = ("download", "vocab", "train", "evaluate")
TINY = {"seeds.more": [], "train.tokens": 20000, "runtime.snapshot_every_s": 0.2}


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


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    return lab(tmp_path_factory.mktemp("sweep") / "clone")


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    """A clone with a cache of its own, for the same runs by plain DVC."""
    return lab(tmp_path_factory.mktemp("serial") / "clone")


def logs(clone, name):
    paths = sorted(clone.path.glob(f"runs/sweeps/{name}/*/log.txt"))
    return [path.read_text() for path in paths]


def states(clone, name):
    paths = sorted(clone.path.glob(f"runs/sweeps/{name}/0*/state.json"))
    return [json.loads(path.read_text()) for path in paths]


def workers_of(process):
    workers = []
    for child in psutil.Process(process.pid).children():
        with contextlib.suppress(psutil.Error):  # a zombie, or gone
            if "tinylm.experiments.worker" in child.cmdline():
                workers.append(child)
    return workers


def wait_for(condition, process, log):
    while not condition():
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)


def test_killed_interrupted_and_resumed_it_ends_with_the_same_bytes(clone, serial, tmp_path):
    log = tmp_path / "log"
    values = ("-S", "train.tokens=60000", "-S", "train.lr=1e-3,2e-3", "--seeds", "1,2")
    process = start(clone, *values, "--workers", "2", "--name", "b", log=log)
    wait_for(lambda: any("update 20," in text for text in logs(clone, "b")), process, log)
    stages = [stage for worker in workers_of(process) for stage in worker.children()]
    stages[0].kill()
    time.sleep(0.5)
    workers_of(process)[0].kill()
    time.sleep(4.0)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 130, log.read_text()
    assert re.search("1 of 2 .*--resume b", log.read_text(), re.DOTALL)
    assert f"{4 - len(states(clone, 'b'))} waiting" in sweep(clone, "--status")
    sweep(clone, "--resume", "--workers", "2")
    assert [state["state"] for state in states(clone, "b")] == ["done"] * 4
    assert any("resumed after update" in text for text in logs(clone, "b"))
    # as if a worker had been killed after it wrote the experiment, but before the state
    (clone.path / "runs/sweeps/b/0001/state.json").unlink()
    sweep(clone, "--resume")
    assert [state["state"] for state in states(clone, "b")] == ["done"] * 4
    found = locks(clone)
    assert sorted(found) == [f"b-000{number}" for number in (1, 2, 3, 4)]
    expected = serially(serial, {"train.tokens": 60000, "train.lr": "2e-3", "train.seed": 1})
    assert found["b-0002"] == expected
    # the runs are experiments of DVC
    assert clone.run("git", "status", "--porcelain").stdout == ""
    assert re.search(r"b-0001 +1, 2 ", clone.run("tinylm", "compare", "--all").stdout)
    clone.dvc("exp", "apply", "b-0002", code=None)  # DVC misses the stages that were not run
    assert "  lr: 0.002" in (clone.path / "params.yaml").read_text()
    assert "up to date" in clone.dvc("status", "train", "evaluate")
