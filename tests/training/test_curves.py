import csv
import math

import pytest

from tinylm.training.curves import write_curves
from tinylm.training.loop import Curves


def read(path):
    with open(path, newline="") as handle:
        return [(int(r["step"]), int(r["tokens"]), r["series"], float(r["value"])) for r in csv.DictReader(handle)]


def test_curves_are_long_tables(tmp_path):
    updates = list(range(1, 21))
    curves = Curves(
        updates, [100 * u for u in updates], [float(u) for u in updates], [u / 10 for u in updates], [2.0] * 20
    )
    curves.held_out = [(0, 0, 3.0), (20, 2000, 1.0)]
    write_curves(tmp_path, curves)
    assert read(tmp_path / "loss.csv") == [
        (10, 1000, "train", 5.5),
        (20, 2000, "train", 15.5),
        (0, 0, "held-out", 3.0),
        (20, 2000, "held-out", 1.0),
    ]
    perplexities = {(step, series): value for step, _, series, value in read(tmp_path / "perplexity.csv")}
    assert perplexities[0, "held-out"] == pytest.approx(math.exp(3), rel=1e-5)
    assert read(tmp_path / "learning_rate.csv")[-1] == (20, 2000, "learning rate", 2.0)
    assert read(tmp_path / "grad_norm.csv")[0] == (10, 1000, "gradient norm", 2.0)


def test_a_run_without_an_update_still_writes_its_tables(tmp_path):
    write_curves(tmp_path, Curves(held_out=[(0, 0, 1e5)]))
    assert read(tmp_path / "grad_norm.csv") == []
    assert read(tmp_path / "perplexity.csv") == [(0, 0, "held-out", pytest.approx(math.exp(700), rel=1e-5))]
