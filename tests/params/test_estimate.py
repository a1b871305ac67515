"""What a run will take, and where a stage stands in it."""

from tests.support.stages import small_params
from tinylm.base.files import write_json
from tinylm.params import estimate
from tinylm.params.params import params_from


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
    token_s, forward_s = estimate.measure(params_from(small_params()))
    assert token_s > 0 < forward_s
