"""Experiments of DVC are listed side by side, and compared."""

import csv
import io
import sys

import pytest


@pytest.fixture(scope="module")
def lab(clone):
    """The copy with two experiments of its commit, of which the workspace knows nothing."""
    for name, change in (("rate", "train.lr=0.05"), ("seed", "train.seed=5")):
        clone.dvc("exp", "run", "--temp", "-n", name, "-S", change, "evaluate")
    yield clone
    assert clone.run("git", "status", "--porcelain").stdout == ""


def test_experiments_are_listed_side_by_side_with_their_losses(lab):
    rows = csv.DictReader(io.StringIO(lab.run("dvc", "exp", "show", "--csv").stdout))
    losses = {(row["train.lr"], row["train.seed"]): row["val_loss"] for row in rows}
    assert {("0.003", "1"), ("0.05", "1"), ("0.003", "5")} <= set(losses)
    assert len(set(losses.values())) == 3


def test_all_experiments_are_compared_with_the_commit(lab):
    words = ("-m", "tinylm.cli", "compare", "--all")
    text = lab.run(sys.executable, *words).stdout
    assert "train.lr" in text
    assert {"HEAD", "rate", "seed"} <= set(text.split())
