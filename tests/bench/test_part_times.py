"""Times by part: every part is measured, its operations are those of `describe`."""

import dataclasses

import pytest
import torch

from tests.support.small import model_settings
from tinylm.bench.part_times import TRIALS, WHOLE, PartTime, format_times, part_times
from tinylm.model.checkpoint import new_model
from tinylm.model.describe import describe

SMALL = model_settings(layers=2, heads=2, feed_forward=16, context=8)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("changes", [{}, {"tied_output": True}, {"heads": 3, "norm": "pre"}])
def test_parts_are_measured_and_their_operations_add_up(changes, precision):
    settings = dataclasses.replace(SMALL, **changes)
    found = part_times(settings, 30, 16, 2, precision, torch.device("cpu"))
    assert [part.part for part in found] == [
        "projections",
        "attention",
        "feed-forward",
        "output, loss",
        WHOLE,
    ]
    assert all(0 < part.low <= part.seconds <= part.high for part in found)
    *parts, whole = found
    counted = sum(
        part.flop + part.attention_flop
        for part in describe(new_model(settings, torch.randn(30, 16)))
    )
    assert sum(part.flop for part in parts) == whole.flop == 3 * 2 * 8 * counted


def test_the_parts_that_blocks_have_count_once_for_each_block(monkeypatch):
    monkeypatch.setattr("tinylm.bench.part_times._timed", lambda *_: 0.5)
    found = {
        part.part: part.seconds
        for part in part_times(SMALL, 30, 16, 2, "fp32", torch.device("cpu"))
    }
    assert found == {
        "projections": 1.0,
        "attention": 1.0,
        "feed-forward": 1.0,
        "output, loss": 0.5,
        WHOLE: 0.5,
    }
    assert TRIALS > 1


def test_the_table_has_shares_of_time_and_operations():
    text = format_times(
        [PartTime("attention", 0.25, 0.2, 0.3, 10**9), PartTime(WHOLE, 0.5, 0.4, 0.6, 2 * 10**9)]
    )
    assert text.splitlines()[1].split() == [
        "attention",
        "250.00",
        "200.00",
        "to",
        "300.00",
        "50%",
        "50%",
        "4.0",
    ]
