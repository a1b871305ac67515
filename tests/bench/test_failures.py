"""A setting that dies is recorded, and the others are measured and compared."""

import pytest

from stages import beam_bench, ckpt_bench, kv_bench
from tests.bench.conftest import results
from tinylm.bench import measure

STAGES = {"beam_bench": beam_bench, "ckpt_bench": ckpt_bench, "kv_bench": kv_bench}
CASES = {
    "beam_bench": (
        lambda task: task.width == 2,
        ["beam 2"],
        lambda found: list(found["methods"]) == ["sampling", "greedy", "beam 1"],
    ),
    "kv_bench": (
        lambda task: not task.cache,
        ["4 new tokens, no cache"],
        lambda found: found["compared"] == [],
    ),
    "ckpt_bench": (
        lambda task: task.train.recompute == "none",
        ["recompute none"],
        lambda found: "same_losses" not in found,  # nothing to compare with
    ),
}


def not_measured(times):
    assert {entry["reason"] for entry in times["not_measured"]} == {"oom"}
    return [entry["setting"] for entry in times["not_measured"]]


@pytest.mark.parametrize("name", CASES)
def test_a_setting_that_dies_is_recorded_and_the_others_go_on(folder, monkeypatch, name):
    dies, settings, is_right = CASES[name]

    def die(function, task):
        return {"error": "oom"} if dies(task) else function(task)

    monkeypatch.setattr(measure, "in_own_process", die)
    STAGES[name].main()
    found, times = results(folder, name)
    assert not_measured(times) == settings
    assert is_right(found)
