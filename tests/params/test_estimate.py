"""The estimate of a run, against recorded runs."""

import pytest

from tinylm.base.files import write_json
from tinylm.params import estimate
from tinylm.params.params import read_params
from tinylm.presets.write import FOLDER

# (seconds of training for each token, seconds of each stage as recorded). The runs had other benches.
RUNS = {
    "AMD EPYC with AVX2": (
        1.35e-4, {"download": 11, "vocab": 24, "train": 243, "evaluate": 49},
    ),
    "Intel Xeon with AVX-512, beside light work": (
        0.212 / 1053, {"download": 18, "vocab": 35, "train": 350, "evaluate": 54},
    ),
}  # fmt: skip
FORWARD = 1 / 3  # of an update: forward passes were not recorded


@pytest.mark.parametrize("machine", RUNS)
def test_the_estimate_is_within_30_percent_of_a_recorded_run(machine):
    token_s, recorded = RUNS[machine]
    params = read_params(FOLDER / "storybook.yaml")
    estimated = estimate.stage_seconds(params, token_s, FORWARD * 1024 * token_s)
    total = sum(estimated[stage] for stage in recorded)
    assert total == pytest.approx(sum(recorded.values()), rel=0.3)


def test_a_stage_says_where_it_stands_and_what_is_left(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    estimate.announce("train")
    assert capsys.readouterr().out == ""
    write_json(estimate.FILE, {"vocab": 30.0, "train": 200.0, "report": 40.0})
    estimate.announce("train")
    assert capsys.readouterr().out == "stage 2 of 3, train; about 4 min left in all\n"
    estimate.announce("seed_train")
    assert capsys.readouterr().out == ""


def test_both_speeds_are_measured(monkeypatch):
    monkeypatch.setattr(estimate, "MEASURED_S", 0.0)
    monkeypatch.setattr(estimate, "STORY", 8)
    token_s, forward_s = estimate.measure(read_params(FOLDER / "storybook.yaml"))
    assert token_s > 0 < forward_s
