"""What a stage writes, and that it fails if its inputs are edited while it runs."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tinylm.base import code, paths
from tinylm.host.command import guard
from tinylm.params.stage import Stage
from tinylm.presets.write import FOLDER


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a pipeline of one stage."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(code, "ROOT", tmp_path)
    shutil.copy(FOLDER / "storybook.yaml", "params.yaml")
    entry = {
        "params": ["data", "decode"],
        "deps": ["stages/kv_bench.py", "data/stories", "${data.path}"],
    }
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": {"kv_bench": entry}}))
    Path("stages").mkdir()
    Path("stages/kv_bench.py").write_text("a")
    Path("inputs/stories").mkdir(parents=True)
    Path("inputs/stories/train.txt").write_text("a")


def write_params(section: str, key: str, value: object) -> None:
    params = yaml.safe_load(Path("params.yaml").read_text())
    params[section][key] = value
    Path("params.yaml").write_text(yaml.safe_dump(params))


def test_results_metrics_and_times_are_written_with_the_conditions():
    write_params("runtime", "threads", 1)
    stage = Stage("kv_bench")
    stage.begin(seed=1)
    metrics = {"kv/on": {"speedup": 2.5, "peak_mib": None}, "kv/off": {"peak_mib": 1.0}}
    stage.write({"same_ids": True}, metrics, {"settings": []})
    results = json.loads(Path(paths.results("kv_bench")).read_text())
    times = json.loads(Path(paths.times("kv_bench")).read_text())
    assert results["same_ids"] is True
    assert json.loads(Path("metrics/kv/on.json").read_text()) == {"speedup": 2.5}
    assert json.loads(Path("metrics/kv/off.json").read_text()) == {"peak_mib": 1.0}
    assert times["settings"] == []
    assert times["seconds"] > 0
    assert times["conditions"]["threads"] >= 1
    assert "cpu" in times["conditions"]


@pytest.mark.parametrize(
    ("edit", "name"),
    [
        (lambda: write_params("data", "seed", 77), "params.yaml: data"),
        (lambda: write_params("decode", "seed", 77), "params.yaml: decode"),
        (lambda: Path("params.yaml").write_text("data: ["), "params.yaml, line 1"),
        (lambda: Path("stages/kv_bench.py").write_text("b"), "the code"),
        (lambda: Path("inputs/stories/train.txt").write_text("a longer one"), "inputs/stories"),
        (lambda: write_params("evaluate", "stories", 3), None),
    ],
)
def test_a_stage_fails_if_an_input_of_it_is_edited_while_it_runs(capsys, edit, name):
    def main() -> None:
        stage = Stage("kv_bench")
        edit()
        stage.write({})

    assert (guard(main) != 0) == (name is not None)
    errors = capsys.readouterr().err.splitlines()
    assert [name in line for line in errors] == [True] * (name is not None)
