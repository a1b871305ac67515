import math

import pandas as pd
import pytest

from tinylm.train.curves import Curves, epoch_metrics, run_metrics, write_curves
from tinylm.train.loop import train


def test_curves_are_long_tables(tmp_path):
    curves = Curves(held_out=[(0, 0, 3.0), (20, 2000, 1.0)])
    for update in range(1, 21):
        curves.add(update, 100 * update, float(update), update / 10, 2.0)
    write_curves(tmp_path, curves)

    def rows(name):
        table = pd.read_csv(tmp_path / f"{name}.csv")
        assert list(table) == ["step", "tokens", "series", "value"]
        return list(table.itertuples(index=False, name=None))

    held_out = [(0, 0, "held-out", 3.0), (20, 2000, "held-out", 1.0)]
    assert rows("loss") == [(10, 1000, "train", 5.5), (20, 2000, "train", 15.5), *held_out]
    assert rows("perplexity")[2][3] == pytest.approx(math.exp(3), rel=1e-5)
    assert rows("learning_rate")[-1] == (20, 2000, "learning rate", 2.0)
    assert rows("grad_norm")[0] == (10, 1000, "gradient norm", 2.0)


def test_an_update_of_several_epochs():
    held_out = [(0, 0, 9.0), (1, 250, 3.0), (2, 500, 1.0)]
    rows = epoch_metrics(Curves([1, 2], [250, 500], [4.0, 2.0], held_out=held_out), 100)
    assert [(row["update"], row["train_loss"]) for row in rows] == [(1, 4.0)] * 2 + [(2, 2.0)] * 3


@pytest.mark.parametrize("accumulation", [1, 3])
def test_a_run_is_measured_at_the_first_update_that_reaches_each_epoch(
    new_model, new_settings, new_batches, held_out, accumulation
):
    batches = new_batches()
    budget = {"tokens": None, "epochs": 2.5, "validate_every": 10**9}
    settings = new_settings(**budget, accumulation=accumulation)
    result = train(new_model(), batches, held_out, settings)
    curves = result.curves
    metrics = run_metrics(result, batches)
    start = 0
    measured = [(0, None)]
    for epoch, row in enumerate(metrics["by_epoch"], 1):
        end = row["update"]
        goal = epoch * batches.tokens_per_epoch
        assert row["epoch"] == epoch
        assert curves.tokens[end - 2] < goal <= curves.tokens[end - 1]
        losses = curves.train[start:end]
        assert row["train_loss"] == pytest.approx(sum(losses) / len(losses))
        measured.append((end, row["held_out_loss"]))
        start = end
    assert len(measured) == 3
    validations = [(update, loss) for update, _, loss in curves.held_out]
    assert validations[1:-1] == measured[1:]
    assert (validations[0][0], validations[-1][0]) == (0, curves.updates[-1])
    assert metrics["epochs"] == pytest.approx(2.5, abs=0.1)
    short = train(new_model(), batches, held_out, new_settings(tokens=500))
    assert "by_epoch" not in run_metrics(short, batches)
