"""The estimate of a run, against recorded runs."""

from tinylm.base.files import write_json
from tinylm.params import estimate
from tinylm.params.params import read_params
from tinylm.presets.write import FOLDER


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
