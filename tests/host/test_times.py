"""Times belong to the result that they were measured with."""

from pathlib import Path

import pytest
import yaml

from tinylm.base import paths
from tinylm.base.files import write_json
from tinylm.host.times import read_times, write_times

RESULT = paths.results("kv_bench")
PLOT = paths.plot("kv_bench_time")
TABLE = {PLOT: [("new_tokens", "series", "value"), (32, "cache", 2.5)]}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current folder, with parameters and a result of stage kv_bench."""
    monkeypatch.chdir(tmp_path)
    write_result("a")
    write_times("kv_bench", "kv_bench", RESULT, {"tokens_per_s": 3.0}, TABLE)
    return tmp_path


def write_result(ids: str, temperature: float = 0.8, lr: float = 1.0) -> None:
    params = {"decode": {"temperature": temperature}, "train": {"lr": lr}}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    write_json(RESULT, {"ids": ids}, sealed=True)


def times() -> dict | None:
    return read_times("kv_bench", "kv_bench", RESULT)


def test_times_are_written_with_the_table_to_plot():
    assert times() == {"tokens_per_s": 3.0}
    assert Path(PLOT).read_text() == "new_tokens,series,value\n32,cache,2.5\n"


@pytest.mark.parametrize("changed", [{"ids": "b"}, {"ids": "a", "temperature": 0.5}])
def test_times_of_another_result_are_not_shown(changed):
    write_result(**changed)
    assert times() is None
    write_result("a", lr=2.0)  # a section that the stage does not read
    assert times()["tokens_per_s"] == 3.0


def test_times_of_equal_texts_from_another_model_are_not_shown():
    write_json(paths.MODEL_CONFIG, {"sha256": "another"})
    assert times() is None
