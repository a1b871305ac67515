"""A recorded run: what its seeds share, and what is refused."""

import pandas as pd
import pytest
import yaml

from studies import record
from tinylm.base.config import InputError, load_params
from tinylm.base.files import read_json, write_json
from tinylm.presets.write import preset_text


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a finished run of the default preset, as far as its files are read."""
    (tmp_path / "params.yaml").write_text(preset_text("storybook"), encoding="utf-8")
    write_json(tmp_path / "data/figures/train.json", {"held_out_perplexity": 9.0})
    write_json(tmp_path / "data/times/train.json", {"conditions": {"cores": 2}})
    rows = [["train", step, 8 * step, 5.0] for step in range(500)] + [["held-out", 499, 3992, 4.0]]
    losses = pd.DataFrame(rows, columns=["series", "step", "tokens", "value"])
    (tmp_path / "plots").mkdir()
    losses.to_csv(tmp_path / "plots/loss.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(record, "refuse_unfinished", lambda: None)
    return tmp_path


def set_param(folder, section, key, value):
    params = load_params(folder / "params.yaml")
    params[section][key] = value
    (folder / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")


def test_seeds_of_one_setting_are_kept_side_by_side(folder):
    assert record.record_run("storybook", "storybook") == ["1"]
    set_param(folder, "train", "seed", 2)
    assert record.record_run("storybook", "storybook") == ["1", "2"]
    content = read_json(folder / "studies/runs/storybook.json")
    assert content["differs"] == []
    run = content["seeds"]["2"]
    assert run["conditions"] == {"cores": 2}
    assert run["metrics"]["train"] == {"held_out_perplexity": 9.0}
    assert record.POINTS <= len(run["curves"]["train"]) <= 2 * record.POINTS
    assert run["curves"]["train"][-1] == [499, 3992, 5.0]


def test_other_settings_under_the_same_name_are_refused(folder):
    record.record_run("storybook", "storybook")
    before = (folder / "studies/runs/storybook.json").read_bytes()
    set_param(folder, "model", "layers", 2)
    with pytest.raises(InputError, match=r"model\.layers"):
        record.record_run("storybook", "storybook")
    assert (folder / "studies/runs/storybook.json").read_bytes() == before
    record.record_run("shallow", "storybook")
    (differs,) = read_json(folder / "studies/runs/shallow.json")["differs"]
    assert differs.startswith("model.layers")
