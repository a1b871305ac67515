"""Sweeps that really run in a small clone: experiments like any other, and what goes wrong hurts one run alone."""

import csv
import io
import json
import os
import signal
import subprocess
import time

import pytest

from tests.sweep import rig, slurm


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    return rig.lab(tmp_path_factory.mktemp("sweep") / "clone")


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    """A clone with a cache of its own, for the same runs by plain DVC."""
    return rig.lab(tmp_path_factory.mktemp("serial") / "clone")


def logs(clone, name):
    return [path.read_text() for path in sorted(clone.path.glob(f"runs/sweeps/{name}/*/log.txt"))]


def states(clone, name):
    return [
        json.loads(path.read_text())
        for path in sorted(clone.path.glob(f"runs/sweeps/{name}/0*/state.json"))
    ]


def test_runs_are_experiments_and_a_wrong_value_is_one_line(clone, serial):
    said = rig.sweep(
        clone, "-S", "model.layers=1,0", "--seeds", "1,2", "--workers", "2", "--name", "a", code=1
    )
    assert (
        said.count("params.yaml: model.layers = 0; allowed: a whole number >= 1") == 4
    )  # at the start, in the table
    assert "2 of 4 runs failed, the others are whole" in said
    assert clone.run("git", "status", "--porcelain").stdout == ""
    recorded = rig.locks(clone)
    assert sorted(recorded) == ["a-0001", "a-0003"]
    assert recorded["a-0003"] == rig.serially(serial, {"train.seed": 2})
    assert sum("vocabulary: " in log for log in logs(clone, "a")) == 1  # made once
    rows = csv.DictReader(io.StringIO(clone.run("dvc", "exp", "show", "--csv").stdout))
    assert {row["Experiment"]: row["train.seed"] for row in rows if row["Experiment"]} == {
        "a-0001": "1",
        "a-0003": "2",
    }
    assert "a-0003" in clone.run("tinylm", "compare", "--all").stdout
    clone.dvc("exp", "apply", "a-0003", code=None)  # DVC misses the stages that nobody has run here
    assert "  seed: 2" in (clone.path / "params.yaml").read_text()
    assert "Data and pipelines are up to date" in clone.dvc("status", "train", "evaluate")
    clone.run("git", "checkout", "-q", ".")


def test_killed_interrupted_and_resumed_it_ends_with_the_same_bytes(clone, serial, tmp_path):
    log = tmp_path / "log"
    words = (
        "-S",
        "train.tokens=60000",
        "-S",
        "train.lr=1e-3,2e-3",
        "--seeds",
        "1,2",
        "--workers",
        "2",
    )
    process = rig.start(clone, *words, "--name", "b", log=log)
    while not any("update 20," in text for text in logs(clone, "b")):
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    assert rig.kill_at_random(process, 2, 1.0, 1) == 2
    time.sleep(4.0)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 130, log.read_text()
    assert "tinylm sweep --resume b goes on" in log.read_text()
    ended = len(states(clone, "b"))
    assert f"{4 - ended} waiting" in rig.sweep(clone, "--status")
    assert "0 failed" not in rig.sweep(clone, "--resume", "--workers", "2")
    recorded = {name: lock for name, lock in rig.locks(clone).items() if name.startswith("b-")}
    assert len(recorded) == 4
    assert any("resumed after update" in text for text in logs(clone, "b"))
    for n, (rate, seed) in enumerate([("1e-3", 1), ("2e-3", 1)], 1):
        values = {"train.tokens": 60000, "train.lr": rate, "train.seed": seed}
        assert recorded[f"b-{n:04d}"] == rig.serially(serial, values)


def test_a_full_disk_ends_one_run(clone):
    run = clone.path / "runs/sweeps/c/0002/runs"
    script = (
        f"(until [ -e {run} ]; do sleep 0.05; done; mount -t tmpfs -o size=16k none {run}) & "
        'exec "$@"'
    )  # fmt: skip
    inside = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh",
         "tinylm", "sweep", "--seeds", "3,4,5", "--workers", "1", "--name", "c"],
        cwd=clone.path, env=clone.environment(), capture_output=True, text=True,
    )  # fmt: skip
    if "unshare" in inside.stderr or "mount" in inside.stderr:
        pytest.skip("no file system can be mounted here")
    assert inside.returncode == 1, inside.stdout + inside.stderr
    assert [state["state"] for state in states(clone, "c")] == ["done", "failed", "done"]
    assert "no space left" in states(clone, "c")[1]["why"]
    assert "3 done of 3 runs" in rig.sweep(clone, "--resume", "c")


def test_hopeless_runs_are_stopped_and_said_to_be(clone):
    pytest.importorskip("optuna")
    rates = "train.muon_lr=0.02,1e-6,1e-7,1e-8"
    said = rig.sweep(
        clone, "-S", rates, "-S", "train.lr=1e-6", "--halving", "2", "--workers", "1", "--name", "d"
    )
    assert [state["state"] for state in states(clone, "d")] == [
        "done",
        "stopped",
        "stopped",
        "stopped",
    ]
    assert said.count("stopped by successive halving after update ") == 6
    assert [name for name in rig.locks(clone) if name.startswith("d-")] == ["d-0001"]


def test_the_seeds_of_the_pipeline_are_runs_of_a_sweep_which_dvc_repro_takes_from_its_cache(clone):
    said = rig.sweep(clone, "--to", "seed_score", code=2)
    assert "--to seed_score is for the seeds of seeds.more, and there are none" in said
    params = clone.path / "params.yaml"
    before = params.read_text()
    params.write_text(before.replace("  more: []", "  more: [2, 3]"))
    said = rig.sweep(clone, "--to", "seed_score", "--workers", "2", "--name", "e")
    assert "run 2 (seed_score@3) done in " in said
    assert said.endswith("dvc repro takes what was made from DVC's cache\n")
    assert [name for name in rig.locks(clone) if name.startswith("e-")] == []
    done = clone.dvc("repro", "seeds")
    for seed in (2, 3):
        assert f"Stage 'seed_score@{seed}' is cached" in done
    assert json.loads((clone.path / "data/figures/seeds.json").read_text())["perplexity"]["sd"] > 0
    params.write_text(before)


@pytest.mark.skipif(bool(slurm.missing()), reason=f"no SLURM can be set up here: {slurm.missing()}")
def test_on_slurm_a_preempted_job_and_a_lost_host_end_with_the_same_bytes(tmp_path):
    with slurm.cluster(tmp_path) as made:
        slurm.troubled_sweep(tmp_path, made, seeds=3, tokens=300000)
        slurm.several_nodes(tmp_path, made)
