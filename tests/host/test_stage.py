import json
from pathlib import Path

import pytest
import yaml

from tinylm.base import paths
from tinylm.host.stage import Stage

RUNTIME = {
    "threads": 1,
    "workers": None,
    "device": "cpu",
    "log_every_s": 5.0,
    "snapshot_every_s": 30.0,
    "logger": "none",
}


@pytest.fixture
def stage(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = {"runtime": RUNTIME, "decode": {}}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    return Stage("kv_bench", params)


def test_results_metrics_times_and_plots_are_written_with_the_conditions(stage):
    stage.begin(seed=1)
    table = {paths.plot("kv_bench_time"): [("new_tokens", "value"), (32, 2.5)]}
    stage.write({"same_ids": True}, {"same": True}, {"settings": []}, table)
    results = json.loads(Path(paths.results("kv_bench")).read_text())
    times = json.loads(Path(paths.times("kv_bench")).read_text())
    assert results["same_ids"] is True
    assert {"device": "cpu", "threads": 1}.items() <= results["environment"].items()
    assert json.loads(Path(paths.metrics("kv_bench")).read_text()) == {"same": True}
    assert times["settings"] == []
    assert times["seconds"] > 0
    assert times["conditions"]["threads"] == 1
    assert Path(paths.plot("kv_bench_time")).read_text() == "new_tokens,value\n32,2.5\n"


def test_times_of_one_of_several_runs_have_a_file_of_their_own(stage):
    Path("run.json").write_text("{}")
    stage.write_times_of("accum_run_4", "run.json", {"train_s": 2.0})
    times = json.loads(Path(paths.times("accum_run_4")).read_text())
    assert times["train_s"] == 2.0
    assert "cpu" in times["conditions"]
