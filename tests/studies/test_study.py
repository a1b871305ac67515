"""Studies: their definitions, the runs that they ask for, and what is concluded from the results."""

import sys
from pathlib import Path

import pytest

from studies import study as module
from studies.published import compared_with_first
from studies.records import FOLDER, read_result
from studies.study import Study, planned, read_studies
from tests.support.clone import new_clone
from tinylm.base.config import load_params, parse_yaml
from tinylm.params.presets.write import flatten, preset_text

ROOT = Path(__file__).parents[2]
SMALL = """\
rates:
  preset: storybook
  question: Which rate is best?
  seeds: [1, 3]
  set: {train.tokens: 900, train.batch_size: 4, train.validate_every: 1000, model.layers: 1, model.heads: 2,
        model.feed_forward: 8, model.context: 12, train.optimizer: adamw, train.keep_epochs: []}
  settings:
    low: {train.lr: 1e-5}
    high: {train.lr: 0.01}
"""


def params_of(preset):
    return parse_yaml(preset_text(preset), preset)


def test_all_studies_can_be_run():
    for name, study in read_studies().items():
        params = params_of(study.preset)
        assert planned(study, params), name
        for values in (study.set, *study.settings.values()):
            assert values.keys() <= flatten(params).keys(), name
            assert {key.partition(".")[0] for key in values} <= set(module.SECTIONS), name


def test_recorded_results_are_of_defined_studies():
    studies = read_studies()
    for path in (FOLDER / "results").glob("*.csv"):
        settings = read_result(path)["setting"].unique()
        assert list(settings) == list(studies[path.stem].settings), path


def test_each_run_has_the_values_of_its_setting_and_its_seed():
    study = Study("s", "storybook", "?", [1, 2], {"a": {}, "b": {"model.layers": 2}}, {})
    params = params_of("storybook")
    assert planned(study, params) == {
        ("a", 1): {},
        ("b", 1): {"model.layers": 2},
        ("a", 2): {"train.seed": 2},
        ("b", 2): {"model.layers": 2, "train.seed": 2},
    }


def test_a_study_runs_and_its_result_is_written(tmp_path):
    clone = new_clone(tmp_path / "clone")
    (clone.path / "studies/studies.yaml").write_text(SMALL, encoding="utf-8")
    params = clone.path / "params.yaml"
    wanted = load_params(ROOT / "tinylm/params/presets/storybook.yaml")["data"]["held_out_share"]
    text = params.read_text("utf-8").replace("held_out_share: 0.1", f"held_out_share: {wanted}")
    params.write_text(text, encoding="utf-8")
    clone.dvc("repro", "vocab")
    clone.run(sys.executable, "-m", "studies.study", "rates", "--workers", "2")
    result = read_result(clone.path / "studies/results/rates.csv")
    assert sorted(zip(result["setting"], result["seed"])) == [
        *(("high", 1), ("high", 3)),
        *(("low", 1), ("low", 3)),
    ]
    loss = result.groupby("setting")["held_out_loss"].mean()
    assert loss["high"] < loss["low"]
    assert (result["tokens"] <= 900).all()


def test_settings_are_compared_over_the_seeds_of_both():
    """A third seed of one side, which learned far better by chance, does not count."""
    losses = {"first": {1: 5.0, 2: 6.0}, "other": {1: 5.001, 2: 6.0012, 3: 3.0}}
    compared = compared_with_first(losses)["other"]
    assert compared["difference"] == pytest.approx(0.0011)
    assert compared["says"].startswith("no difference claimed")
