import numpy as np
import pandas as pd
import pytest

from tinylm.compare.pictures import draw_sweep
from tinylm.compare.scaling import ALIKE, fit, scaling_of

PARAMETERS = np.geomspace(1e5, 1e7, 8)
NOISY = 3.0 * PARAMETERS[:4] ** -0.07 * np.array([1.01, 0.99, 1.0, 1.003])


def points(sizes, losses, axis="parameters"):
    names = [f"r{i}" for i in range(len(sizes))]
    return pd.DataFrame({"name": names, axis: sizes, "loss": losses})


def law_of(sizes, losses, axis="parameters"):
    return fit(points(sizes, losses, axis)).laws[axis]


def test_the_fit_is_a_straight_line_on_the_logarithms_with_students_interval():
    law = law_of(PARAMETERS[:4], NOISY, "tokens")
    u = np.log(PARAMETERS[:4])
    design = np.stack([np.ones(4), u], axis=1)
    (offset, slope), squares, _, _ = np.linalg.lstsq(design, np.log(NOISY), rcond=None)
    covariance = np.linalg.inv(design.T @ design) * squares[0] / 2
    t = 4.302653  # of 2 degrees of freedom
    assert law.exponent == pytest.approx(-slope)
    low, high = law.interval
    assert high - low == pytest.approx(2 * t * covariance[1, 1] ** 0.5)
    start = design[0]
    half = t * (start @ covariance @ start) ** 0.5
    ends = np.exp(offset + slope * u[0] + np.array([-half, half]))
    assert law.curve[["low", "high"]].iloc[0].tolist() == pytest.approx(ends.tolist())
    assert law.curve["x"].iloc[[0, -1]].tolist() == pytest.approx(PARAMETERS[[0, 3]].tolist())


def test_only_the_best_of_a_size_and_the_frontier_of_compute_are_fitted():
    sizes = [1e6, 1e6 * ALIKE * 0.999, 4e6, 4e6, 16e6]
    law = law_of(sizes, [3.0, 2.9, 2.7, 2.5, 2.2])
    assert law.points["name"].tolist() == ["r1", "r3", "r4"]
    losses = [3.0, 2.6, 2.7, 2.2]  # the cheaper second beats the third
    law = law_of([1e12, 2e12, 4e12, 8e12], losses, "compute")
    assert law.points["name"].tolist() == ["r0", "r1", "r3"]
    assert len(law_of([1e6, 2e6, 4e6, 8e6], losses).points) == 4


def sized(make_run, size, **more):
    """A run of a sweep over the model's size: 0.1 nats per token for each doubling."""
    shift = -0.1 * np.log2(size / 1e5)
    run = make_run(f"s{size:.0f}", {"model.layers": size}, shift=shift, **more)
    run.metrics["train"] = {"parameters": size, "tokens": 1000, "training_flop_per_token": 6 * size}
    return run


def test_only_runs_of_the_same_text_are_fitted(make_run):
    runs = [sized(make_run, size) for size in (1e5, 2e5, 4e5, 8e5)]
    others = [
        sized(make_run, 16e5, texts=["another"]),
        sized(make_run, 32e5, texts=[f"text {i}" for i in range(60)]),
    ]
    scaling = scaling_of([*runs, *others])
    assert scaling.points["name"].tolist() == ["s100000", "s200000", "s400000", "s800000"]
    assert scaling.left_out == ["s1600000", "s3200000"]
    assert scaling.unit == "nats per token"
    assert scaling.points["compute"].tolist() == [6 * size * 1000 for size in (1e5, 2e5, 4e5, 8e5)]
    other = sized(make_run, 64e5, vocabulary="w")
    scaling = scaling_of([*runs, other])
    assert scaling.unit == "bits per byte"
    assert scaling.points["loss"].iloc[2] == runs[2].value("evaluate", "bits_per_byte")


def sweep_runs(make_run, seeds):
    runs = []
    for lr in (0.01, 0.1, 0.3):
        for seed in seeds:
            params = {"train.lr": lr, "train.seed": seed}
            runs.append(make_run(f"{lr}-{seed}", params, shift=-lr + seed / 100))
    return runs


def test_a_sweep_is_drawn_as_means_with_bands_over_its_seeds(make_run):
    scaling = scaling_of(sweep_runs(make_run, (1, 2, 3)))
    line = scaling.sweep.points
    assert scaling.sweep.key == "train.lr"
    assert line["x"].tolist() == [0.01, 0.1, 0.3]
    assert line["seeds"].tolist() == [3, 3, 3]
    assert (line["highest"] - line["lowest"]).tolist() == pytest.approx([0.02] * 3)
    assert line["loss"].iloc[0] - line["loss"].iloc[2] == pytest.approx(0.29)
    axes = draw_sweep(scaling).drawing.axes[0]
    assert len(axes.collections) == 1  # the band
    assert axes.get_xscale() == "log"


def test_a_second_number_makes_lines_and_words_alone_no_picture(make_run):
    runs = []
    for lr in (0.01, 0.02, 0.03):
        for layers in (2, 4):
            runs.append(make_run(f"{lr}-{layers}", {"train.lr": lr, "model.layers": layers}))
    lines = scaling_of(runs).sweep.points["line"]
    assert sorted(set(lines)) == ["model.layers 2", "model.layers 4"]
    words = [make_run(name, {"train.optimizer": name}) for name in ("muon", "adamw")]
    assert scaling_of(words).sweep is None
