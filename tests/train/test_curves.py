import csv
import math

import pytest

from tinylm.train.curves import Curves, epoch_metrics, run_metrics, write_curves
from tinylm.train.loop import train


def read(path):
    with open(path, newline="") as handle:
        return [
            (int(r["step"]), int(r["tokens"]), r["series"], float(r["value"]))
            for r in csv.DictReader(handle)
        ]


def test_curves_are_long_tables(tmp_path):
    updates = list(range(1, 21))
    curves = Curves(
        updates,
        [100 * u for u in updates],
        [float(u) for u in updates],
        [u / 10 for u in updates],
        [2.0] * 20,
    )
    curves.held_out = [(0, 0, 3.0), (20, 2000, 1.0)]
    write_curves(tmp_path, curves)
    assert read(tmp_path / "loss.csv") == [
        (10, 1000, "train", 5.5),
        (20, 2000, "train", 15.5),
        (0, 0, "held-out", 3.0),
        (20, 2000, "held-out", 1.0),
    ]
    perplexities = {
        (step, series): value for step, _, series, value in read(tmp_path / "perplexity.csv")
    }
    assert perplexities[0, "held-out"] == pytest.approx(math.exp(3), rel=1e-5)
    assert read(tmp_path / "learning_rate.csv")[-1] == (20, 2000, "learning rate", 2.0)
    assert read(tmp_path / "grad_norm.csv")[0] == (10, 1000, "gradient norm", 2.0)


def test_a_run_without_an_update_still_writes_its_tables(tmp_path):
    write_curves(tmp_path, Curves(held_out=[(0, 0, 1e5)]))
    assert read(tmp_path / "grad_norm.csv") == []
    assert read(tmp_path / "perplexity.csv") == [
        (0, 0, "held-out", pytest.approx(math.exp(700), rel=1e-5))
    ]


def test_metrics_of_each_epoch():
    tokens = [
        40,
        80,
        120,
        160,
        200,
        240,
        280,
    ]  # the third update ends the first epoch, the fifth the second
    curves = Curves([*range(1, 8)], tokens, [float(u) for u in range(1, 8)])
    curves.held_out = [(0, 0, 9.0), (3, 120, 3.0), (4, 160, 2.0), (5, 200, 1.0), (7, 280, 0.5)]
    assert epoch_metrics(curves, 100) == [
        {
            "epoch": 1,
            "update": 3,
            "train_loss": 2.0,
            "held_out_loss": 3.0,
            "held_out_perplexity": math.exp(3),
        },
        {
            "epoch": 2,
            "update": 5,
            "train_loss": 4.5,
            "held_out_loss": 1.0,
            "held_out_perplexity": math.exp(1),
        },
    ]
    assert epoch_metrics(curves, 281) == epoch_metrics(Curves(), 100) == []


def test_an_update_of_several_epochs():
    curves = Curves(
        [1, 2], [250, 500], [4.0, 2.0], held_out=[(0, 0, 9.0), (1, 250, 3.0), (2, 500, 1.0)]
    )
    rows = epoch_metrics(curves, 100)
    assert [(row["epoch"], row["update"], row["train_loss"]) for row in rows] == [
        (1, 1, 4.0), (2, 1, 4.0), (3, 2, 2.0), (4, 2, 2.0), (5, 2, 2.0)
    ]  # fmt: skip


@pytest.mark.parametrize("accumulation", [1, 3])
def test_a_run_tells_its_whole_epochs(new_model, new_settings, new_batches, held_out, accumulation):
    batches = new_batches()
    settings = new_settings(
        tokens=None, epochs=2.5, validate_every=10**9, accumulation=accumulation
    )
    result = train(new_model(), batches, held_out, settings)
    metrics = run_metrics(result, batches)
    rows = metrics["by_epoch"]
    assert [row["epoch"] for row in rows] == [1, 2]
    assert [(row["update"], row["held_out_loss"]) for row in rows] == [
        (update, loss) for update, _, loss in result.curves.held_out[1:-1]
    ]
    start = 0
    for row in rows:
        losses = result.curves.train[start : row["update"]]
        assert row["train_loss"] == pytest.approx(sum(losses) / len(losses))
        start = row["update"]
    assert metrics["epochs"] == pytest.approx(2.5, abs=0.1)
    short = train(new_model(), batches, held_out, new_settings(tokens=500))
    assert "by_epoch" not in run_metrics(short, batches)
