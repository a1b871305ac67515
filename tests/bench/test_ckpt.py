import csv
import json

import pytest
import torch

from stages import ckpt_bench
from tinylm.base.files import read_json
from tinylm.bench import ckpt, measure
from tinylm.host.command import CommandFailed


def result(recompute, nats=1.5, **gradients):
    return {
        "layers": 3,
        "recompute": recompute,
        "nats": nats.hex(),
        "gradients": {"a": "1", "b": "2"} | gradients,
    }


def test_stage_writes_what_was_agreed(folder, inline):
    ckpt_bench.main()
    assert json.loads((folder / "metrics/ckpt_bench.json").read_text()) == {"same": True}
    assert read_json(folder / "data/figures/ckpt_bench.json") == {
        "same_loss": True,
        "same_gradients": True,
        "depths": [1, 3],
    }
    times = json.loads((folder / "metrics/ckpt_bench_time.json").read_text())
    rows = times["settings"]
    assert [(row["layers"], row["recompute"]) for row in rows] == [
        (1, False),
        (1, True),
        (3, False),
        (3, True),
    ]
    assert all({"peak_mib", "process_mib", "step_s", "epoch_s"} < set(row) for row in rows)
    assert [(row["layers"], row["recompute"]) for row in times["other_ways"]] == [
        (1, "blocks+loss"), (1, "sqrt"), (3, "blocks+loss"), (3, "sqrt")
    ]  # fmt: skip
    assert rows[3]["peak_mib"] < rows[2]["peak_mib"]
    assert times["not_measured"] == []
    plotted = list(csv.DictReader((folder / "plots/ckpt_memory_time.csv").open()))
    assert [(row["layers"], row["series"]) for row in plotted] == [
        (layers, way) for layers in "13" for way in ("plain", "recompute", "blocks+loss", "sqrt")
    ]  # fmt: skip


def test_dropout_is_on_and_every_parameter_is_compared(folder, model_settings):
    def first_task(dropout):
        model = ckpt.dataclasses.replace(model_settings, dropout=dropout)
        return ckpt.make_tasks(
            ckpt.CkptBenchSettings(depths=(2,), batch_size=3, repeats=1), model, 2, "data", "cpu", 1
        )[0]

    with_dropout, without = (ckpt.measure_task(first_task(dropout)) for dropout in (0.2, 0.0))
    assert with_dropout["nats"] != without["nats"]
    model = ckpt.new_model(model_settings, torch.zeros(35, 12))
    assert set(with_dropout["gradients"]) == {name for name, _ in model.named_parameters()}


@pytest.mark.parametrize("changes", [{"precision": "bf16"}, {"plain_loss": True}])
def test_other_precisions_and_losses_are_the_same_to_the_bit_with_less_memory(
    folder, model_settings, changes
):
    def tasks(dropout):
        model = ckpt.dataclasses.replace(model_settings, dropout=dropout)
        return ckpt.make_tasks(
            ckpt.CkptBenchSettings(depths=(2,), batch_size=3, repeats=1), model, 2, "data", "cpu", 1
        )

    plain, blocks, *_ = (ckpt.dataclasses.replace(task, **changes) for task in tasks(0.2))
    found = [
        {"layers": 2, "recompute": task.recompute} | ckpt.measure_task(task)
        for task in (plain, blocks)
    ]
    assert ckpt.compare(found) == [2]
    assert found[1]["peak_mib"] < found[0]["peak_mib"]
    default = tasks(0.0)[0]
    changed, usual = (
        ckpt.measure_task(task) for task in (ckpt.dataclasses.replace(default, **changes), default)
    )
    assert changed["gradients"] != usual["gradients"]  # other roundings: the change took effect
    assert float.fromhex(changed["nats"]) == pytest.approx(float.fromhex(usual["nats"]), rel=1e-2)


def test_another_gradient_fails_and_names_the_parameter():
    with pytest.raises(
        CommandFailed, match=r"recompute blocks changes the gradient of b \(1 of 2 parameters\)"
    ):
        ckpt.compare([result("none"), result("blocks", b="3")])


def test_a_missing_gradient_fails():
    other = result("blocks")
    del other["gradients"]["a"]
    with pytest.raises(CommandFailed, match="gradient of a"):
        ckpt.compare([result("none"), other])


def test_each_setting_is_timed_in_turn_and_the_spread_is_kept(
    folder, monkeypatch, model_settings, capsys
):
    asked, times = (
        [],
        iter([3.0, 30.0, 300.0, 3000.0, 1.0, 10.0, 100.0, 1000.0, 2.0, 20.0, 200.0, 2000.0]),
    )

    def measure_one(function, task):
        asked.append((function.__name__, task.recompute))
        whole = {
            "nats": "0x1p+0",
            "gradients": {},
            "tokens": 10,
            "tokens_per_epoch": 100,
            "peak_mib": 1.0,
        }
        return {"step_s": next(times)} | (whole if function is ckpt.measure_task else {})

    monkeypatch.setattr(measure, "in_own_process", measure_one)
    settings = ckpt.CkptBenchSettings(depths=(2,), batch_size=3, repeats=3)
    results = ckpt.run(ckpt.make_tasks(settings, model_settings, 2, "data", "cpu", 1))
    assert asked == [
        (name, mode) for name in ("measure_task", "time_task", "time_task") for mode in ckpt.MODES
    ]
    assert [(row["low_step_s"], row["step_s"], row["high_step_s"]) for row in results] == [
        (1.0, 2.0, 3.0), (10.0, 20.0, 30.0), (100.0, 200.0, 300.0), (1000.0, 2000.0, 3000.0)
    ]  # fmt: skip
    assert (results[0]["tokens_per_s"], results[0]["epoch_s"]) == (5.0, 20.0)
    assert "times, trial 3 of 3" in capsys.readouterr().out


def test_a_further_trial_is_a_step_of_the_same_work(folder, model_settings):
    settings = ckpt.CkptBenchSettings(depths=(2,), batch_size=3, repeats=1)
    task = ckpt.make_tasks(settings, model_settings, 2, "data", "cpu", 1)[0]
    assert ckpt.time_task(task)["step_s"] > 0


def test_a_setting_that_dies_in_a_later_trial_is_named(folder, params, change, monkeypatch):
    def die(function, task):
        return (
            {"error": "oom"}
            if function is ckpt.time_task and task.recompute == "sqrt"
            else function(task)
        )

    monkeypatch.setattr(measure, "in_own_process", die)
    change(params, "ckpt_bench", repeats=2)
    ckpt_bench.main()
    lost = json.loads((folder / "metrics/ckpt_bench_time.json").read_text())["not_measured"]
    assert [row["setting"] for row in lost] == [
        "1 layers, recompute sqrt",
        "3 layers, recompute sqrt",
    ]


def test_nothing_is_called_the_same_that_was_not_compared(folder, monkeypatch):
    def die(function, task):
        return {"error": "oom"} if task.recompute == "none" else function(task)

    monkeypatch.setattr(measure, "in_own_process", die)
    ckpt_bench.main()
    assert json.loads((folder / "metrics/ckpt_bench.json").read_text()) == {"same": None}


def test_a_setting_that_dies_is_recorded_and_its_depth_not_compared(folder, monkeypatch):
    def die(function, task):
        return (
            {"error": "oom"}
            if task.model.layers == 3 and task.recompute == "none"
            else function(task)
        )

    monkeypatch.setattr(measure, "in_own_process", die)
    ckpt_bench.main()
    times = json.loads((folder / "metrics/ckpt_bench_time.json").read_text())
    assert times["not_measured"] == [
        {"setting": "3 layers, recompute none", "figure": "all", "reason": "oom"}
    ]
    assert json.loads((folder / "data/figures/ckpt_bench.json").read_text())["depths"] == [1]
