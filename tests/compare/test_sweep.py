import pytest

from tinylm.compare.pictures import draw_sweep
from tinylm.compare.sweep import sweep_of


def sweep_runs(make_run, seeds):
    runs = []
    for lr in (0.01, 0.1, 0.3):
        for seed in seeds:
            params = {"train.lr": lr, "train.seed": seed}
            runs.append(make_run(f"{lr}-{seed}", params, shift=-lr + seed / 100))
    return runs


def test_a_sweep_is_drawn_as_means_with_bands_over_its_seeds(make_run):
    sweep = sweep_of(sweep_runs(make_run, (1, 2, 3)))
    line = sweep.points
    assert sweep.key == "train.lr"
    assert line["x"].tolist() == [0.01, 0.1, 0.3]
    assert line["seeds"].tolist() == [3, 3, 3]
    assert (line["high"] - line["low"]).tolist() == pytest.approx([0.02] * 3)
    assert line["value"].iloc[0] - line["value"].iloc[2] == pytest.approx(0.29)
    assert sweep.unit == "nats per token"
    axes = draw_sweep(sweep).drawing.axes[0]
    assert len(axes.collections) == 1  # the band
    assert axes.get_xscale() == "log"


def test_a_second_number_makes_lines_and_words_alone_no_picture(make_run):
    runs = []
    for lr in (0.01, 0.02, 0.03):
        for layers in (2, 4):
            runs.append(make_run(f"{lr}-{layers}", {"train.lr": lr, "model.layers": layers}))
    lines = sweep_of(runs).points["series"]
    assert sorted(set(lines)) == ["model.layers 2", "model.layers 4"]
    words = [make_run(name, {"train.optimizer": name}) for name in ("muon", "adamw")]
    assert sweep_of(words) is None


def test_runs_of_other_texts_are_left_out_and_other_tokens_are_compared_by_bits(make_run):
    runs = sweep_runs(make_run, (1,))
    other = make_run("other", {"train.lr": 1.0}, texts=["another"])
    assert len(sweep_of([*runs, other]).points) == 3
    foreign = make_run("foreign", {"train.lr": 1.0}, vocabulary="w")
    sweep = sweep_of([*runs, foreign])
    assert sweep.unit == "bits per byte"
    assert sweep.points["value"].iloc[0] == runs[0].value("evaluate", "bits_per_byte")
