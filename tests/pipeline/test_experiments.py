"""Experiments: in the workspace, in a folder apart, in a queue; what changed is shown."""

import contextlib
import csv
import io
import time

import psutil
import pytest

RATES = {"workspace": "0.02", "apart": "0.03", "queue": ("0.04", "0.05")}


def processes(clone) -> list[psutil.Process]:
    """What still runs inside the copy."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd().startswith(str(clone.path)):
                found.append(process)
    return found


@pytest.fixture(scope="module")
def lab(clone):
    """The copy; a queue worker that outlives the tests is ended."""
    yield clone
    for process in processes(clone):
        with contextlib.suppress(psutil.Error):
            process.kill()


def table(clone) -> dict[str, dict[str, str]]:
    """`dvc exp show --csv`: row of each learning rate."""
    rows = csv.DictReader(io.StringIO(clone.run("dvc", "exp", "show", "--csv").stdout))
    return {row["train.lr"]: row for row in rows}


def an_experiment_in_the_workspace(lab):
    lab.started()
    lab.dvc("exp", "run", "-S", f"train.lr={RATES['workspace']}", "train")
    assert lab.started() == ["train"]
    assert f"lr: {RATES['workspace']}" in (lab.path / "params.yaml").read_text(encoding="utf-8")


def what_changed_is_printed(lab, base):
    params = lab.dvc("params", "diff").split()
    assert {"params.yaml", "train.lr", "0.003", RATES["workspace"]} <= set(params)
    old, new = (clone.json("metrics/train.json")["held_out"] for clone in (base, lab))
    assert old != new
    (line,) = (row.split() for row in lab.dvc("metrics", "diff").splitlines() if "held_out" in row)
    assert line[0] == "metrics/train.json"
    assert [float(cell) for cell in line[2:4]] == pytest.approx([old, new], abs=1e-4)


def an_experiment_apart_leaves_the_workspace_alone(lab):
    lab.run("git", "checkout", "-q", ".")
    lab.dvc("checkout", "--quiet")
    lab.started()
    lab.dvc("exp", "run", "--temp", "-S", f"train.lr={RATES['apart']}", "train")
    assert lab.started() == ["train"]
    assert lab.run("git", "status", "--porcelain").stdout == ""


def a_queue_of_two(lab):
    lab.started()
    for rate in RATES["queue"]:
        lab.dvc("exp", "run", "--queue", "-S", f"train.lr={rate}", "train")
    assert lab.started() == []
    lab.dvc("queue", "start")
    end = time.monotonic() + 400
    while (status := lab.dvc("queue", "status")).count("Success") < 2:
        assert "Failed" not in status, status
        assert time.monotonic() < end, status
        time.sleep(1)
    lab.dvc("queue", "stop", "--kill")
    assert lab.started() == ["train", "train"]
    assert lab.run("git", "status", "--porcelain").stdout == ""


def all_are_listed_side_by_side(lab):
    rows = table(lab)
    rates = [RATES["workspace"], RATES["apart"], *RATES["queue"]]
    assert {"0.003", *rates} <= set(rows)
    column = "held_out"
    losses = [float(rows[rate][column]) for rate in rates]
    assert len(set(losses)) == len(rates)


def test_experiments_in_the_workspace_apart_and_in_a_queue(lab, base):
    """One test, since each step needs those before it: two processes that share tests would part them."""
    an_experiment_in_the_workspace(lab)
    what_changed_is_printed(lab, base)
    an_experiment_apart_leaves_the_workspace_alone(lab)
    a_queue_of_two(lab)
    all_are_listed_side_by_side(lab)
