"""Sweeps that really run in a small clone: experiments like any other, whatever happens to workers."""

import contextlib
import json
import os
import re
import signal
import time

import psutil
import pytest

from tests.sweep import rig


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    return rig.lab(tmp_path_factory.mktemp("sweep") / "clone")


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    """A clone with a cache of its own, for the same runs by plain DVC."""
    return rig.lab(tmp_path_factory.mktemp("serial") / "clone")


def logs(clone, name):
    paths = sorted(clone.path.glob(f"runs/sweeps/{name}/*/log.txt"))
    return [path.read_text() for path in paths]


def states(clone, name):
    paths = sorted(clone.path.glob(f"runs/sweeps/{name}/0*/state.json"))
    return [json.loads(path.read_text()) for path in paths]


def test_runs_are_experiments_of_dvc(clone, serial):
    rig.sweep(clone, "-S", "model.layers=1", "--seeds", "1,2", "--workers", "2", "--name", "a")
    assert clone.run("git", "status", "--porcelain").stdout == ""
    locks = rig.locks(clone)
    assert sorted(locks) == ["a-0001", "a-0002"]
    assert locks["a-0002"] == rig.serially(serial, {"train.seed": 2})
    assert re.search(r"a-0001 +1, 2 ", clone.run("tinylm", "compare", "--all").stdout)
    clone.dvc("exp", "apply", "a-0002", code=None)  # DVC misses the stages that were not run
    assert "  seed: 2" in (clone.path / "params.yaml").read_text()
    assert "up to date" in clone.dvc("status", "train", "evaluate")
    clone.run("git", "checkout", "-q", ".")


def workers_of(process):
    workers = []
    for child in psutil.Process(process.pid).children():
        with contextlib.suppress(psutil.Error):  # a zombie, or gone
            if "tinylm.sweep.worker" in child.cmdline():
                workers.append(child)
    return workers


def wait_for(condition, process, log):
    while not condition():
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)


def test_killed_interrupted_and_resumed_it_ends_with_the_same_bytes(clone, serial, tmp_path):
    log = tmp_path / "log"
    values = ("-S", "train.tokens=60000", "-S", "train.lr=1e-3,2e-3", "--seeds", "1,2")
    process = rig.start(clone, *values, "--workers", "2", "--name", "b", log=log)
    wait_for(lambda: any("update 20," in text for text in logs(clone, "b")), process, log)
    stages = [stage for worker in workers_of(process) for stage in worker.children()]
    stages[0].kill()
    time.sleep(0.5)
    workers_of(process)[0].kill()
    time.sleep(4.0)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 130, log.read_text()
    assert "--resume b" in log.read_text()
    assert f"{4 - len(states(clone, 'b'))} waiting" in rig.sweep(clone, "--status")
    rig.sweep(clone, "--resume", "--workers", "2")
    assert [state["state"] for state in states(clone, "b")] == ["done"] * 4
    assert any("resumed after update" in text for text in logs(clone, "b"))
    locks = rig.locks(clone)
    expected = rig.serially(serial, {"train.tokens": 60000, "train.lr": "2e-3", "train.seed": 1})
    assert locks["b-0002"] == expected
