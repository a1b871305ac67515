import math

import pandas as pd
import pytest

from tinylm.train.curves import Curves, epoch_metrics, run_metrics, write_curves
from tinylm.train.loop import train


def test_curves_are_long_tables(tmp_path):
    updates = range(1, 21)
    curves = Curves(held_out=[(0, 0, 3.0), (20, 2000, 1.0)])
    for update in updates:
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
    curves = Curves(
        [1, 2], [250, 500], [4.0, 2.0], held_out=[(0, 0, 9.0), (1, 250, 3.0), (2, 500, 1.0)]
    )
    rows = epoch_metrics(curves, 100)
    assert [(row["update"], row["train_loss"]) for row in rows] == [(1, 4.0)] * 2 + [(2, 2.0)] * 3


@pytest.mark.parametrize("accumulation", [1, 3])
def test_a_run_has_metrics_of_its_whole_epochs(
    new_model, new_settings, new_batches, held_out, accumulation
):
    batches = new_batches()
    settings = new_settings(
        tokens=None, epochs=2.5, validate_every=10**9, accumulation=accumulation
    )
    result = train(new_model(), batches, held_out, settings)
    metrics = run_metrics(result, batches)
    rows = metrics["by_epoch"]
    validations = [(update, loss) for update, _, loss in result.curves.held_out[1:-1]]
    assert [(row["update"], row["held_out_loss"]) for row in rows] == validations
    start = 0
    for number, row in enumerate(rows, 1):
        assert row["epoch"] == number
        assert result.curves.tokens[row["update"] - 1] >= number * batches.tokens_per_epoch
        losses = result.curves.train[start : row["update"]]
        assert row["train_loss"] == pytest.approx(sum(losses) / len(losses))
        start = row["update"]
    assert len(rows) == 2
    assert metrics["epochs"] == pytest.approx(2.5, abs=0.1)
    short = train(new_model(), batches, held_out, new_settings(tokens=500))
    assert "by_epoch" not in run_metrics(short, batches)
