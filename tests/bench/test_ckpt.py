import csv
import dataclasses

import pytest
import torch

from stages import ckpt_bench
from tinylm.base.config import read_section
from tinylm.base.files import read_json
from tinylm.bench import ckpt
from tinylm.host.command import CommandFailed
from tinylm.host.runtime import RuntimeSettings
from tinylm.model.checkpoint import new_model


def test_losses_and_gradients_are_the_same_with_less_memory(folder, inline, results):
    ckpt_bench.main()
    found, times = results("ckpt_bench")
    assert found["same_gradients"] is True
    assert found["depths"] == [1, 3]
    rows = times["settings"]
    assert [(row["layers"], row["recompute"]) for row in rows] == [
        (layers, recompute) for layers in (1, 3) for recompute in (False, True)
    ]
    assert all({"peak_mib", "step_s", "epoch_s"} < set(row) for row in rows)
    assert rows[3]["peak_mib"] < rows[2]["peak_mib"]
    for row, way in zip(rows[2:], ("off", "on"), strict=True):  # of the deepest model
        shown = read_json(folder / f"metrics/ckpt/{way}.json")
        assert shown == {name: row[name] for name in ("epoch_s", "peak_mib")}
    plotted = list(csv.DictReader((folder / "plots/ckpt_bench.csv").open()))
    series = ("plain", "recompute")
    assert [(row["layers"], row["series"]) for row in plotted] == [
        (layers, way) for layers in "13" for way in series
    ]


def test_dropout_is_on_and_every_parameter_is_compared(folder, params, model_settings):
    settings = ckpt.CkptBenchSettings(depths=(2,), batch_size=3)
    runtime = read_section(params, "runtime", RuntimeSettings)
    answers = []
    for dropout in (0.2, 0.0):
        model = dataclasses.replace(model_settings, dropout=dropout)
        task = ckpt.make_tasks(settings, model, pad_id=2, runtime=runtime)[0]
        answers.append(ckpt.measure_task(task))
    with_dropout, without = (answer["exact"] for answer in answers)
    assert with_dropout["the loss"] != without["the loss"]
    model = new_model(model_settings, torch.zeros(35, 12))
    names = {f"the gradient of {name}" for name, _ in model.named_parameters()}
    assert set(with_dropout) == {"the loss", *names}


def result(recompute, **exact):
    return {"layers": 3, "recompute": recompute, "exact": exact}


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (result("blocks", loss="1", a="1", b="3"), "recompute blocks .* b "),
        (result("blocks", loss="1", b="2"), "recompute blocks .* a "),
        (result("blocks", loss="2", a="1", b="2"), "recompute blocks .* loss"),
    ],
)
def test_another_loss_or_gradient_fails_with_its_place(other, named):
    with pytest.raises(CommandFailed, match=named):
        ckpt.compare([result("none", loss="1", a="1", b="2"), other])
