import csv
import dataclasses
import json

import pytest
import torch

from stages import kv_bench
from tinylm.base.config import InputError, read_section
from tinylm.base.files import read_json
from tinylm.bench import kv, measure
from tinylm.decoding.settings import DecodeSettings
from tinylm.host.command import CommandFailed
from tinylm.model.checkpoint import new_model, save_model
from tinylm.model.transformer import TinyLM
from tinylm.vocab.matrix_file import load_matrix


@pytest.fixture(autouse=True)
def trained(folder, model_settings):
    """A model of stage train, of which it is enough that it is there."""
    torch.manual_seed(1)
    model = new_model(
        model_settings, torch.from_numpy(load_matrix("data/vocab/embedding.safetensors"))
    )
    save_model("models", model)
    return model


@pytest.fixture
def task(folder, params):
    return kv.Task(
        model="models",
        decode=read_section(params, "decode", DecodeSettings),
        prompts=[[0, 5, 6], [0, 9, 4]],
        new_tokens=23,
        cache=True,
        eos_id=1,
        device="cpu",
        threads=1,
    )


def results_of(ids, others):
    return [
        {"setting": str(cache), "new_tokens": 2, "rows": 2, "cache": cache, "ids": rows}
        for cache, rows in ((False, ids), (True, others))
    ]


def test_stage_with_real_processes(folder, params, change):
    change(params, "kv_bench", lengths=[4])
    kv_bench.main()
    times = json.loads((folder / "metrics/kv_bench_time.json").read_text())
    assert [(row["new_tokens"], row["cache"]) for row in times["settings"]] == [
        (4, False),
        (4, True),
    ]
    assert [(row["rows"], row["cache"]) for row in times["smaller"]] == [(1, False), (1, True)]


def test_stage_writes_what_was_agreed(folder, inline):
    kv_bench.main()
    assert json.loads((folder / "metrics/kv_bench.json").read_text()) == {"same": True}
    assert read_json(folder / "data/figures/kv_bench.json") == {
        "batch": 3,
        "same_ids": True,
        "compared": [{"new_tokens": n, "rows": rows} for n, rows in ((4, 3), (23, 3), (23, 1))],
        "ties": [],
    }
    times = json.loads((folder / "metrics/kv_bench_time.json").read_text())
    assert [(row["new_tokens"], row["cache"], row["past_context"]) for row in times["settings"]] == [
        (4, False, False), (4, True, False), (23, False, True), (23, True, True)
    ]  # fmt: skip
    for row in times["settings"] + times["smaller"]:
        assert {*measure.with_spread(kv.TIMES), *kv_bench.MEMORY} < set(row)
        assert row["low_tokens_per_s"] <= row["tokens_per_s"] <= row["high_tokens_per_s"]
    assert [row["cache_mib"] > 0 for row in times["settings"]] == [False, True, False, True]
    assert times["not_measured"] == []
    assert {"cpu", "threads", "torch"} < set(times["conditions"])
    rows = list(csv.DictReader((folder / "plots/kv_bench_time.csv").open()))
    assert [(row["new_tokens"], row["series"]) for row in rows] == [
        ("4", "no cache"), ("4", "cache"), ("23", "no cache"), ("23", "cache")
    ]  # fmt: skip


def test_a_setting_that_dies_is_recorded_and_the_others_go_on(folder, monkeypatch):
    def die(function, task):
        if task.new_tokens == 23 and not task.cache and len(task.prompts) == 3:
            return {"error": "oom"}
        return function(task)

    monkeypatch.setattr(measure, "in_own_process", die)
    kv_bench.main()
    times = json.loads((folder / "metrics/kv_bench_time.json").read_text())
    assert times["not_measured"] == [
        {"setting": "23 new tokens, 3 rows, no cache", "figure": "all", "reason": "oom"}
    ]
    assert len(times["settings"]) == 3
    found = json.loads((folder / "data/figures/kv_bench.json").read_text())["compared"]
    assert found == [{"new_tokens": 4, "rows": 3}, {"new_tokens": 23, "rows": 1}]


@pytest.mark.parametrize(
    ("lengths", "ties", "same"), [([(4, 3)], [{"prompt": 1}], False), ([], [], None)]
)
def test_whether_the_ids_are_the_same_is_what_was_found(
    folder, inline, monkeypatch, lengths, ties, same
):
    monkeypatch.setattr(kv, "compare", lambda *_: (lengths, ties))
    kv_bench.main()
    assert json.loads((folder / "metrics/kv_bench.json").read_text()) == {"same": same}
    assert read_json(folder / "data/figures/kv_bench.json")["same_ids"] is same


def test_other_ids_fail_with_the_place(task):
    with pytest.raises(
        CommandFailed, match="2 new tokens, 2 rows, prompt 1, new token 1: 8 with, 7 without"
    ):
        kv.compare(results_of([[4, 5], [6, 7]], [[4, 5], [6, 8]]), task)


def test_equal_logits_are_a_tie(task, trained):
    with torch.no_grad():
        trained.embedding[8] = trained.embedding[
            7
        ]  # tied output: words of equal vectors have equal logits
    save_model("models", trained)
    lengths, ties = kv.compare(results_of([[4, 5], [6, 7]], [[4, 5], [6, 8]]), task)
    assert lengths == [(2, 2)]
    assert [(tie["prompt"], tie["position"]) for tie in ties] == [(1, 1)]


def test_greedy_ignores_how_decode_samples(task):
    chosen = kv.greedy(task.decode)
    assert (chosen.temperature, chosen.repetition_penalty, chosen.slide) == (
        0.0,
        1.0,
        task.decode.slide,
    )


@pytest.mark.parametrize(("key", "value"), [("batch", 14), ("prompt_tokens", 15)])
def test_settings_that_do_not_fit_are_bad_input(folder, params, change, key, value):
    change(params, "kv_bench", **{key: value})
    with pytest.raises(InputError, match=f"kv_bench.{key} = {value}; allowed: at most"):
        kv_bench.main()


@pytest.mark.parametrize("cache", [False, True])
def test_only_the_cached_run_has_a_cache(task, monkeypatch, cache):
    made = []
    new_cache = TinyLM.new_cache
    monkeypatch.setattr(TinyLM, "new_cache", lambda *args: made.append(1) or new_cache(*args))
    result = kv.measure_task(kv.dataclasses.replace(task, cache=cache))
    assert bool(made) == (result["cache_mib"] > 0) == cache


def test_each_setting_is_timed_in_turn(task, monkeypatch):
    asked, speeds = [], iter([1.0, 10.0, 3.0, 30.0, 2.0, 20.0])

    def measure_one(function, task):
        asked.append((function.__name__, task.cache))
        return dict.fromkeys(kv.TIMES, next(speeds)) | {"ids": [], "peak_mib": 1.0}

    monkeypatch.setattr(measure, "in_own_process", measure_one)
    tasks = [dataclasses.replace(task, cache=cache) for cache in (False, True)]
    found = kv.run(tasks, 16, 3)
    assert asked == [
        (name, on) for name in ("measure_task", "time_task", "time_task") for on in (False, True)
    ]
    spread = [
        (row["low_tokens_per_s"], row["tokens_per_s"], row["high_tokens_per_s"]) for row in found
    ]
    assert spread == [(1.0, 2.0, 3.0), (10.0, 20.0, 30.0)]
    assert [row["setting"] for row in found] == [
        f"23 new tokens, 2 rows, {way}" for way in ("no cache", "cache")
    ]


def test_smaller_batches_are_measured_at_the_second_length(params):
    settings = read_section(params, "kv_bench", kv.KvBenchSettings)
    shared = {"model": "m", "decode": None, "eos_id": 1, "device": "cpu", "threads": 1}
    for rows, sizes in ((20, [1, 5]), (4, [1]), (1, [])):
        tasks = kv.make_tasks(
            dataclasses.replace(settings, lengths=(9, 5, 7)), [[1, 2]] * rows, **shared
        )
        found = [(task.new_tokens, len(task.prompts), task.cache) for task in tasks]
        assert found[:6] == [(n, rows, cache) for n in (9, 5, 7) for cache in (False, True)]
        assert found[6:] == [(7, size, cache) for size in sizes for cache in (False, True)]
