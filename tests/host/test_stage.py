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


def test_results_metrics_and_times_are_written_with_the_conditions(stage):
    stage.begin(seed=1)
    metrics = {"kv/on": {"speedup": 2.5, "peak_mib": None}, "kv/off": {"peak_mib": 1.0}}
    stage.write({"same_ids": True}, metrics, {"settings": []})
    results = json.loads(Path(paths.results("kv_bench")).read_text())
    times = json.loads(Path(paths.times("kv_bench")).read_text())
    assert results["same_ids"] is True
    assert {"device": "cpu", "threads": 1}.items() <= results["environment"].items()
    assert json.loads(Path("metrics/kv/on.json").read_text()) == {"speedup": 2.5}
    assert json.loads(Path("metrics/kv/off.json").read_text()) == {"peak_mib": 1.0}
    assert times["settings"] == []
    assert times["seconds"] > 0
    assert times["conditions"]["threads"] == 1
    assert "cpu" in times["conditions"]
