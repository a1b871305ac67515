"""The frame: trials, rows and their record; what is refused; which earlier runs count."""

import json
import re

import pytest

from benchmarks import frame, loss
from benchmarks.__main__ import RESULTS
from benchmarks.frame import Options, table


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """Runs in which losses depend on side and tokens, and that count what really ran.

    On the evaluation split tinylm is far better, which must not end the race.
    """
    monkeypatch.setattr(loss, "prepare", lambda options: (tmp_path, loss.of_size(True)))
    ran = []

    def measured(self, task):
        ran.append((task["side"], task["tokens"], task["seed"]))
        is_peer = task["side"] == loss.PEER
        held_out = 3.0 - task.get("lr", 0.0) if is_peer else 300 / task["tokens"]
        held_out += 0.05 * (task["seed"] == 2)
        evaluation = held_out if is_peer else held_out - 2.0
        return {"seconds": task["tokens"] / 10, "held_out": held_out, "evaluation": evaluation}

    monkeypatch.setattr(loss.Runs, "_measured", measured)
    made = loss.Runs(Options(work=tmp_path))
    made.ran = ran
    return made


def test_the_race_is_won_by_the_first_share_whose_mean_validation_loss_is_reached(runs):
    grid = {"lr": (0.1, 0.2), "batch": (2,)}
    plan = loss.Plan(grid, "fp32", [{}, {}], (0.5, 0.6, 1.0, 1.1), (1, 2))
    row = loss._row(runs, plan, 100)
    assert row.what.endswith("(lr 0.2, batch 2)")
    assert (row.tinylm["median"], row.peer["median"]) == (11.0, 10.0)
    first = len(runs.ran)
    loss._row(runs, plan, 100)
    assert len(runs.ran) == first


def test_the_page_of_benchmarks_shows_numbers_of_the_record():
    page = (frame.ROOT / "docs/reference/benchmarks.md").read_text("utf-8")
    results = page.partition("## Results")[2].partition("\n## ")[0]
    rates = re.findall(r"[\d,]+ \([\d,]+ to [\d,]+\) \|", results)
    rates += re.findall(r": ([\d,]+ \([\d,]+ to [\d,]+\)) \|", results)
    recorded = table(json.loads(RESULTS.read_text("utf-8")))
    assert len(rates) > 10
    assert [rate for rate in rates if rate.removesuffix(" |") not in recorded] == []
