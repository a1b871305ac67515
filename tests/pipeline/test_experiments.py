"""Experiments: in the workspace and in a folder apart; what changed is shown."""

import csv
import io

import pytest


def table(clone) -> dict[str, dict[str, str]]:
    """`dvc exp show --csv`: the row of each learning rate."""
    rows = csv.DictReader(io.StringIO(clone.run("dvc", "exp", "show", "--csv").stdout))
    return {row["train.lr"]: row for row in rows}


@pytest.fixture(scope="module")
def lab(clone):
    """The copy with an experiment in a folder apart and one in the workspace."""
    clone.dvc("exp", "run", "--temp", "-S", "train.lr=0.03", "train")
    assert clone.run("git", "status", "--porcelain").stdout == ""
    clone.started()
    clone.dvc("exp", "run", "-S", "train.lr=0.02", "train")
    assert clone.started() == ["train"]
    return clone


def test_experiments_are_listed_side_by_side_with_their_losses(lab):
    rows = table(lab)
    assert {"0.003", "0.02", "0.03"} <= set(rows)
    losses = {rows[rate]["held_out"] for rate in ("0.003", "0.02", "0.03")}
    assert len(losses) == 3


def test_what_changed_is_printed(lab):
    changed = lab.dvc("params", "diff")
    assert "train.lr" in changed
    assert "model.layers" not in changed
    metrics = lab.dvc("metrics", "diff")
    assert "held_out" in metrics
