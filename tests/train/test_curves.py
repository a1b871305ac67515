import math

import pandas as pd
import pytest

from tinylm.train.curves import Curves, epoch_metrics, write_curves


def test_curves_are_long_tables(tmp_path):
    curves = Curves(held_out=[(0, 0, 3.0), (20, 2000, 1.0)])
    for update in range(1, 21):
        curves.add(100 * update, float(update), update / 10, 2.0)
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
    rows = epoch_metrics(Curves([250, 500], [4.0, 2.0], held_out=held_out), 100)
    assert [(row["epoch"], row["train_loss"]) for row in rows] == [(2, 4.0), (5, 2.0)]
