"""Heads over training, copying and the logit lens in the report."""

import math

import pytest

from tinylm.report.blocks import Figure, Gallery, Paragraph, Table
from tinylm.report.head_training import (
    judge_copying,
    judge_roles_in_training,
    layers,
    over_training,
    roles_by_epoch,
)
from tinylm.report.pictures import PICTURES


def test_the_pictures_show_each_moment_and_the_end(run, drawn):
    (shown,) = [block for block in over_training(run) if isinstance(block, Gallery)]
    names = [block.name for block in shown.blocks if isinstance(block, Figure)]
    assert names == ["heads_width", "roles_training"]
    width = drawn["heads_width"].figure.axes[0].lines[0]
    assert list(width.get_xdata()) == [0.0, 0.1, 0.5, run.get("train", "epochs")]
    assert list(width.get_ydata()) == pytest.approx([math.exp(4.0 - 0.5 * n) for n in range(4)])


def test_a_role_is_the_best_heads(run):
    ys = roles_by_epoch(run)["previous token"][1]
    assert ys == pytest.approx([0.0, 0.3, 0.3, 0.3])
    assert list(roles_by_epoch(run)) == [
        "previous token"
    ]  # the roles that were measured in training too


def test_a_role_counts_from_when_it_stays(run):
    (found,) = judge_roles_in_training(run)
    assert found.text.endswith("keeps it: previous token after 0.10 epochs.")
    for row in run.found["heads_training"]:
        if row["epochs"] == "0.5":
            row["previous token"] = "0.01"
    assert judge_roles_in_training(run)[0].text.endswith(
        f"previous token after {run.get('train', 'epochs')} epochs."
    )
    for row in run.found["heads_training"]:
        row["previous token"] = "0.01"
    assert judge_roles_in_training(run) == []


def test_copying_is_claimed_only_where_the_interval_says_so(run):
    (found,) = judge_copying(run)
    assert found.text == (
        "The model predicts random words better when they are repeated (14.000 nats per word the first time, 13.000 "
        "the second)."
    )
    run.found["evaluate"]["heads"]["induction"]["even"] = 0.2
    assert [finding.claim for finding in judge_copying(run)] == [
        True,
        False,
    ]  # no head looks where copying needs it
    run.found["evaluate"]["heads"]["induction"]["saved"]["low"] = -0.1
    (found,) = judge_copying(run)
    assert "does not predict random words better" in found.text
    run.found["evaluate"]["heads"]["induction"] = None
    assert judge_copying(run) == []


def test_layers_show_their_predictions_and_the_inductive_head(run):
    (lens,) = [block for block in layers(run) if isinstance(block, Table)]
    assert [row[:2] for row in lens.rows] == [("0", "9.000"), ("1", "8.000"), ("2", "7.000")]
    assert lens.rows[-1][2] == "100.0 %"
    said = " ".join(str(block) for block in layers(run) if isinstance(block, Paragraph))
    assert "layer 2, head 3, 14.0 % of the weight (3.0 % if spread evenly)" in said


def test_an_older_run_has_neither(run):
    run.found.pop("heads_training")
    run.found["evaluate"]["heads"].pop("induction")
    run.found["evaluate"]["heads"].pop("logit_lens")
    assert (
        over_training(run)
        == layers(run)
        == judge_roles_in_training(run)
        == judge_copying(run)
        == []
    )
    assert [PICTURES[name][1](run) for name in ("heads_width", "roles_training")] == [None] * 2
