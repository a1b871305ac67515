"""How a setting is measured, and that one which dies is recorded while the others go on."""

import dataclasses
import os
import signal

import pytest
import torch

from stages import beam_bench, ckpt_bench, kv_bench
from tests.bench.conftest import results
from tinylm.base.command import CommandFailed
from tinylm.base.config import InputError
from tinylm.base.files import read_json
from tinylm.bench import trials
from tinylm.bench.device import peak_mib
from tinylm.bench.trials import Failure
from tinylm.run.benches import NotMeasured

CPU = torch.device("cpu")
MIB_FLOATS = (1 << 20) // 4


def test_peak_is_what_lives_at_once():
    def step():
        first = torch.empty(3 * MIB_FLOATS)
        del first
        second, third = torch.empty(2 * MIB_FLOATS), torch.empty(5 * MIB_FLOATS)
        return len(second) + len(third)

    assert peak_mib(step, CPU) == pytest.approx(7, abs=0.01)


def test_peak_is_above_what_was_there_before():
    """Old gradients, which the step releases, are allocated by `before`."""
    weight = torch.ones(MIB_FLOATS, requires_grad=True)

    def step():
        weight.grad = None
        weight.sum().backward()

    assert peak_mib(step, CPU) == pytest.approx(1, abs=0.01)
    weight.grad = None
    assert peak_mib(step, CPU, before=step) == pytest.approx(0, abs=0.01)


def test_own_process_returns_the_dict_and_is_another_process():
    assert trials.in_own_process(dict, [("a", 1)]) == {"a": 1}
    assert trials.in_own_process(own_pid, None) != os.getpid()


def own_pid(_):
    return os.getpid()


def test_own_processes_answer_in_order():
    lists = [[3, 1], [2], [], [5, 4]]
    assert list(trials.in_own_processes(sorted, lists, together=2)) == [[1, 3], [2], [], [4, 5]]


@pytest.mark.parametrize(
    ("function", "argument", "error"),
    [
        (bytearray, 1 << 60, "oom"),
        (signal.raise_signal, signal.SIGKILL, "its process ended with exit code -9"),
        (os._exit, 3, "its process ended with exit code 3"),
        (int, "three", "ValueError: invalid literal"),
    ],
)
def test_own_process_that_fails_or_dies_is_an_error_of_its_setting(function, argument, error):
    assert trials.in_own_process(function, argument).reason.startswith(error)


def test_own_process_passes_bad_input_on(tmp_path):
    with pytest.raises(InputError, match=r"absent\.json is missing"):
        trials.in_own_process(read_json, str(tmp_path / "absent.json"))


@dataclasses.dataclass(frozen=True)
class Setting:
    name: str


@dataclasses.dataclass(frozen=True)
class Speed:
    tokens_per_s: float


@dataclasses.dataclass(frozen=True)
class Answer:
    times: Speed
    function: str


def test_trials_are_taken_in_turn_and_their_spread_is_kept(monkeypatch):
    order = []
    speeds = iter([1.0, 10.0, 100.0, 3.0, 30.0, 2.0, 20.0])

    def answer(function, task):
        order.append((function, task.name))
        if (function, task.name) == ("times", "c"):
            return Failure("oom")
        times = Speed(next(speeds))
        return times if function == "times" else Answer(times, function)

    monkeypatch.setattr(trials, "in_own_process", answer)
    monkeypatch.setattr(trials, "TRIALS", 3)
    results, failed = trials.run_trials([Setting(name) for name in "abc"], "whole", "times")
    assert order == [*(("whole", task) for task in "abc"), *(("times", task) for task in "abcab")]
    assert results[1].task == Setting("b")
    assert results[1].first == Answer(Speed(10.0), "whole")
    assert results[1].times_row() == {
        "tokens_per_s": 20.0,
        "low_tokens_per_s": 10.0,
        "high_tokens_per_s": 30.0,
    }
    assert [result.task.name for result in results] == ["a", "b"]
    assert failed == [NotMeasured("c", "all", "oom")]
    with pytest.raises(CommandFailed):
        trials.split_failures([Setting("c")], [Failure("oom")])


STAGES = {"beam_bench": beam_bench, "ckpt_bench": ckpt_bench, "kv_bench": kv_bench}
CASES = {
    "beam_bench": (
        lambda task: task.width == 2,
        "beam 2",
        lambda found: list(found["methods"]) == ["sampling", "greedy", "beam 1"],
    ),
    "kv_bench": (
        lambda task: not task.cache,
        "4 new tokens, no cache",
        lambda found: found["compared"] == [],
    ),
    "ckpt_bench": (
        lambda task: task.train.recompute == "none",
        "recompute none",
        lambda found: "same_losses" not in found,  # nothing to compare with
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_setting_that_dies_is_recorded_and_the_others_go_on(folder, monkeypatch, name):
    dies, setting, is_right = CASES[name]

    def die(function, task):
        return Failure("oom") if dies(task) else function(task)

    monkeypatch.setattr(trials, "in_own_process", die)
    STAGES[name].main()
    found, times = results(folder, name)
    dead = [(entry["setting"], entry["reason"]) for entry in times["not_measured"]]
    assert dead == [(setting, "oom")]
    assert is_right(found)
