"""Curves sent to wandb during a run, through a stand-in for the package."""

import sys
from types import SimpleNamespace

import pytest

from tinylm.base.config import InputError
from tinylm.host.loggers import open_logger
from tinylm.train.loop import train


@pytest.fixture
def calls(monkeypatch):
    """Options that the package was opened with, then (update, name, value) of what was sent."""
    calls = []

    class Run:
        def log(self, metrics, step):
            calls.extend((step, name, value) for name, value in metrics.items())

        def finish(self):
            calls.append("closed")

    def init(**options):
        calls.append(options)
        return Run()

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    return calls


OPENED = {"project": "tinylm", "dir": "runs", "mode": "offline", "config": {"train.lr": 0.01}}


def test_curves_reach_the_tracker_and_results_stay_the_same(
    calls, new_model, new_batches, held_out, new_settings
):
    settings = new_settings(tokens=1500, validate_every=7)
    expected = train(new_model(), new_batches(), held_out, settings)
    with open_logger("wandb", "runs", 0.0, {"train.lr": 0.01}) as logger:
        result = train(new_model(), new_batches(), held_out, settings, logger=logger)
    curves = result.curves
    assert curves == expected.curves
    opened, *sent, closed = calls
    assert (opened, closed) == (OPENED, "closed")
    sent = {(update, series): value for update, series, value in sent}
    for update, _, loss in curves.held_out:
        assert sent[update, "held_out_loss"] == loss
    series = {"train_loss": curves.train, "learning_rate": curves.rate, "tokens": curves.tokens}
    for key, values in series.items():
        assert [sent[update, key] for update in range(1, len(values) + 1)] == values


def test_a_missing_package_names_the_key(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match=r"runtime\.logger"):
        open_logger("wandb", "runs", 5.0, {}).__enter__()
