import csv
import json

import numpy as np
import pytest

from stages import kv_bench
from tinylm.base.config import InputError, read_section
from tinylm.base.files import read_json
from tinylm.bench import kv, measure
from tinylm.decoding.settings import DecodeSettings
from tinylm.host.command import CommandFailed
from tinylm.text.tokens.matrix_file import load_matrix, save_matrix


@pytest.fixture
def task(folder, params, model_settings):
    return kv.Task(
        model=model_settings,
        decode=read_section(params, "decode", DecodeSettings),
        prompts=[[0, 5, 6], [0, 9, 4]],
        new_tokens=23,
        cache=True,
        repeats=1,
        eos_id=1,
        embedding="data/vocab/embedding.safetensors",
        device="cpu",
        threads=1,
    )


def results_of(ids, others):
    return [
        {"setting": str(cache), "new_tokens": 2, "cache": cache, "ids": rows}
        for cache, rows in ((False, ids), (True, others))
    ]


def test_stage_with_real_processes(folder, params, change):
    change(params, "kv_bench", lengths=[4])
    kv_bench.main()
    times = json.loads((folder / "metrics/kv_bench_time.json").read_text())
    assert [(row["new_tokens"], row["cache"]) for row in times["settings"]] == [(4, False), (4, True)]


def test_stage_writes_what_was_agreed(folder, inline):
    kv_bench.main()
    assert json.loads((folder / "metrics/kv_bench.json").read_text()) == {"same": True}
    assert read_json(folder / "data/figures/kv_bench.json") == {
        "batch": 3,
        "same_ids": True,
        "lengths": [4, 23],
        "ties": [],
    }
    times = json.loads((folder / "metrics/kv_bench_time.json").read_text())
    assert [(row["new_tokens"], row["cache"], row["past_context"]) for row in times["settings"]] == [
        (4, False, False), (4, True, False), (23, False, True), (23, True, True)
    ]  # fmt: skip
    assert all(set(kv_bench.FIGURES) < set(row) for row in times["settings"])
    assert [row["cache_mib"] > 0 for row in times["settings"]] == [False, True, False, True]
    assert times["not_measured"] == []
    assert {"cpu", "threads", "torch"} < set(times["conditions"])
    rows = list(csv.DictReader((folder / "plots/kv_bench_time.csv").open()))
    assert [(row["new_tokens"], row["series"]) for row in rows] == [
        ("4", "no cache"), ("4", "cache"), ("23", "no cache"), ("23", "cache")
    ]  # fmt: skip


def test_a_setting_that_dies_is_recorded_and_the_others_go_on(folder, monkeypatch):
    def die(function, task):
        if task.new_tokens == 23 and not task.cache:
            return {"error": "oom"}
        return function(task)

    monkeypatch.setattr(measure, "in_own_process", die)
    kv_bench.main()
    times = json.loads((folder / "metrics/kv_bench_time.json").read_text())
    assert times["not_measured"] == [{"setting": "23 new tokens, no cache", "figure": "all", "reason": "oom"}]
    assert len(times["settings"]) == 3
    assert json.loads((folder / "data/figures/kv_bench.json").read_text())["lengths"] == [4]


@pytest.mark.parametrize(("lengths", "ties", "same"), [([4], [{"prompt": 1}], False), ([], [], None)])
def test_whether_the_ids_are_the_same_is_what_was_found(folder, inline, monkeypatch, lengths, ties, same):
    monkeypatch.setattr(kv, "compare", lambda *_: (lengths, ties))
    kv_bench.main()
    assert json.loads((folder / "metrics/kv_bench.json").read_text()) == {"same": same}
    assert read_json(folder / "data/figures/kv_bench.json")["same_ids"] is same


def test_other_ids_fail_with_the_place(task):
    with pytest.raises(CommandFailed, match="2 new tokens, prompt 1, new token 1: 8 with, 7 without"):
        kv.compare(results_of([[4, 5], [6, 7]], [[4, 5], [6, 8]]), task)


def test_equal_logits_are_a_tie(task):
    matrix = load_matrix(task.embedding)
    matrix = np.array(matrix)
    matrix[8] = matrix[7]  # tied output: two words of equal vectors have equal logits
    save_matrix(task.embedding, matrix)
    lengths, ties = kv.compare(results_of([[4, 5], [6, 7]], [[4, 5], [6, 8]]), task)
    assert lengths == [2]
    assert [(tie["prompt"], tie["position"]) for tie in ties] == [(1, 1)]


def test_greedy_ignores_how_decode_samples(task):
    chosen = kv.greedy(task.decode)
    assert (chosen.temperature, chosen.repetition_penalty, chosen.slide) == (0.0, 1.0, task.decode.slide)


@pytest.mark.parametrize(("key", "value"), [("batch", 14), ("prompt_tokens", 15)])
def test_settings_that_do_not_fit_are_bad_input(folder, params, change, key, value):
    change(params, "kv_bench", **{key: value})
    with pytest.raises(InputError, match=f"kv_bench.{key} = {value}; allowed: at most"):
        kv_bench.main()


@pytest.mark.parametrize("cache", [False, True])
def test_only_the_cached_run_has_a_cache(task, monkeypatch, cache):
    made = []
    new_cache = kv.TinyLM.new_cache
    monkeypatch.setattr(kv.TinyLM, "new_cache", lambda *args: made.append(1) or new_cache(*args))
    result = kv.measure_task(kv.dataclasses.replace(task, cache=cache))
    assert bool(made) == (result["cache_mib"] > 0) == cache
