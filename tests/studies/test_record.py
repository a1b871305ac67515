"""A recorded run: what it has, what its seeds share, and what is refused."""

import pytest
import yaml

from studies import record
from studies.published import changed_since
from studies.records import read_run
from tinylm.base.config import InputError, load_params
from tinylm.base.files import write_json
from tinylm.presets.write import preset_text


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a finished run of the default preset, as far as its files are read."""
    (tmp_path / "params.yaml").write_text(preset_text("storybook"), encoding="utf-8")
    write_json(tmp_path / "metrics/train.json", {"val_loss": 2.5})
    write_json(tmp_path / "data/figures/train.json", {"train_loss": 2.25, "updates": 5003})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(record, "refuse_unfinished", lambda: None)
    monkeypatch.setattr(record, "git", lambda *words: "0123abc")
    monkeypatch.setattr(record, "entries", lambda: [{"numbers": {"runs/a": {"train/updates": 1}}}])
    return tmp_path


def set_param(folder, section, key, value):
    params = load_params(folder / "params.yaml")
    params[section][key] = value
    (folder / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")


def test_metrics_and_named_numbers_are_recorded_for_each_seed(folder):
    assert record.record_run("a", "storybook") == ["1"]
    set_param(folder, "train", "seed", 2)
    assert record.record_run("a", "storybook") == ["1", "2"]
    run = read_run(folder / "studies/runs/a.csv")
    assert list(run.loc["metrics/train/val_loss"]) == ["2.5", "2.5"]
    assert list(run.loc["train/updates"]) == ["5003", "5003"]
    assert "train/train_loss" not in run.index
    assert run.loc["params/model/layers", "2"] == "4"


def test_other_settings_under_the_same_name_are_refused(folder):
    record.record_run("a", "storybook")
    before = (folder / "studies/runs/a.csv").read_bytes()
    set_param(folder, "model", "layers", 2)
    with pytest.raises(InputError, match=r"model\.layers"):
        record.record_run("a", "storybook")
    assert (folder / "studies/runs/a.csv").read_bytes() == before
    record.record_run("shallow", "storybook")
    assert changed_since(folder / "studies/runs/shallow.csv") == ["model.layers: 4 -> 2"]
