import json
from pathlib import Path

import pytest
import yaml

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.base.files import write_json
from tinylm.host.times import read_times, show_times, stage_time

MADE = paths.figures("kv_bench")
PLOT = paths.plot("kv_bench_time")
TABLE = {PLOT: [("new_tokens", "series", "value"), (32, "cache", 2.5)]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with parameters and a result of stage kv_bench."""
    monkeypatch.chdir(tmp_path)
    result("a")
    return tmp_path


def result(ids: str, temperature: float = 0.8) -> None:
    Path("params.yaml").write_text(
        yaml.safe_dump({"decode": {"temperature": temperature}, "train": {"lr": 1.0}})
    )
    write_json(MADE, {"ids": ids}, sealed=True)


def times() -> dict | None:
    return read_times("kv_bench", "kv_bench", MADE)


def test_times_are_written_with_conditions_and_the_table_to_plot(folder):
    stage_time("kv_bench", 0.0, {"cpu": "x"}, {"tokens_per_s": 3.0}, TABLE)
    found = json.loads(Path(paths.times("kv_bench")).read_text())
    assert found["tokens_per_s"] == 3.0
    assert found["conditions"] == {"cpu": "x"}
    assert found["seconds"] > 0
    assert times() == found
    assert Path(PLOT).read_text() == "new_tokens,series,value\n32,cache,2.5\n"


@pytest.mark.parametrize("changed", [{"ids": "b"}, {"ids": "a", "temperature": 0.5}])
def test_times_of_another_result_are_not_shown_and_come_back_with_theirs(folder, changed):
    stage_time("kv_bench", 0.0, {}, {"tokens_per_s": 3.0}, TABLE)
    result(**changed)
    assert times() is None
    show_times("kv_bench", "kv_bench", MADE, [PLOT])
    assert not Path(paths.times("kv_bench")).exists()
    assert not Path(PLOT).exists()
    result("a")
    show_times("kv_bench", "kv_bench", MADE, [PLOT])
    assert json.loads(Path(paths.times("kv_bench")).read_text())["tokens_per_s"] == 3.0
    assert Path(PLOT).read_text().endswith("32,cache,2.5\n")


def test_times_of_the_same_figures_from_other_data_are_not_shown(folder):
    """The figures of a bench may be the same bytes for every width and vocabulary."""
    for width, speed in (("16", 3.0), ("512", 4.0)):
        write_json("data/vocab/sha256.json", {"embedding.safetensors": width})
        stage_time("kv_bench", 0.0, {}, {"tokens_per_s": speed})
    assert times()["tokens_per_s"] == 4.0
    write_json("data/vocab/sha256.json", {"embedding.safetensors": "16"})
    assert times()["tokens_per_s"] == 3.0


def test_only_the_stage_s_own_tables_are_written(folder):
    stage_time("kv_bench", 0.0, {}, {}, {"params.yaml": [["a"], ["b"]]} | TABLE)
    before = json.dumps({"decode": {"temperature": 0.8}, "train": {"lr": 1.0}})
    result("a")
    show_times("kv_bench", "kv_bench", MADE, [PLOT])
    assert yaml.safe_load(Path("params.yaml").read_text()) == json.loads(before)
    assert not Path(PLOT).exists()


def test_other_sections_and_the_last_run_of_several_do_not_matter(folder):
    for speed in (3.0, 4.0):
        stage_time("kv_bench", 0.0, {}, {"tokens_per_s": speed})
    params = yaml.safe_load(Path("params.yaml").read_text())
    params["train"]["lr"] = 2.0
    Path("params.yaml").write_text(yaml.safe_dump(params))
    assert times()["tokens_per_s"] == 4.0


def test_no_result_has_no_times(folder):
    stage_time("kv_bench", 0.0, {})
    Path(MADE).unlink()
    assert times() is None


@pytest.mark.parametrize(
    "damage", ["[1]", "{}", '{"seconds": ', '{"tables": {"a.csv": 5}}', '{"tables": {"a.csv": []}}']
)
def test_damaged_times_are_named_and_not_shown(folder, damage):
    stage_time("kv_bench", 0.0, {})
    (path,) = Path(paths.TIMES, "kv_bench").iterdir()
    path.write_text(damage)
    with pytest.raises(InputError, match=r"runs/times/kv_bench/\w+\.json: "):
        times()
    show_times("kv_bench", "kv_bench", MADE)  # the report names what is damaged, and shows the rest
    assert not Path(paths.times("kv_bench")).exists()


def test_a_folder_in_the_place_of_times_is_named(folder):
    stage_time("kv_bench", 0.0, {})
    (path,) = Path(paths.TIMES, "kv_bench").iterdir()
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="holds no times"):
        times()
