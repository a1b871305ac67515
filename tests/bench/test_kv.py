import csv
import dataclasses

import pytest
import torch

from stages import kv_bench
from tests.bench.conftest import results
from tinylm.base.command import CommandFailed
from tinylm.base.config import InputError
from tinylm.bench import kv
from tinylm.model.checkpoint import load_model, save_model


@pytest.fixture
def task(params):
    return kv.Task(
        slide="half",
        prompts=[[0, 5, 6], [0, 9, 4]],
        new_tokens=23,
        cache=True,
        eos_id=1,
        runtime=params.runtime,
    )


def test_ids_are_the_same_with_and_without_the_cache(finished_run):
    found, times = results(finished_run, "kv_bench")
    compared = {"batch": 2, "same_ids": True, "compared": [4], "ties": []}
    assert compared.items() <= found.items()
    assert times["conditions"]["step"] == "plain"
    settings = [(row["new_tokens"], row["cache"]) for row in times["settings"]]
    assert settings == [(4, False), (4, True)]
    plotted = list(csv.DictReader((finished_run / "plots/kv_bench.csv").open()))
    assert [row["series"] for row in plotted] == ["no cache", "cache"]


def test_seconds_per_further_token_leave_the_first_out(task, monkeypatch):
    monkeypatch.setattr(
        kv, "_timed", lambda task, model, prompts, new: ([[4] * new] * 2, 1.0, 12.0)
    )
    times = kv.measure_task(dataclasses.replace(task, only_times=True))
    assert times == {"tokens_per_s": 46 / 12, "first_token_s": 1.0, "rest_s_per_token": 11 / 22}


def test_the_shown_speedup_is_that_of_the_longest_text():
    rows = [
        {"new_tokens": length, "cache": cache, "tokens_per_s": speed}
        for length, cache, speed in ((4, False, 1.0), (4, True, 2.0), (14, False, 10.0), (14, True, 30.0))
    ]  # fmt: skip
    ways = kv.longest(rows)
    assert (ways["off"]["new_tokens"], ways["on"]["speedup"]) == (14, 3.0)
    assert kv.longest(rows[:3])["on"] == {}


def test_other_ids_fail_with_their_place_and_equal_logits_are_a_tie(task):
    results = [
        {"new_tokens": 2, "cache": cache, "ids": [[4, 5], [6, last]]}
        for cache, last in ((False, 7), (True, 8))
    ]
    with pytest.raises(CommandFailed, match="prompt 1, new token 1: 8 with, 7 without"):
        kv.compare(results, task)
    model, _ = load_model("models")
    with torch.no_grad():
        # tied output: words of equal vectors have equal logits
        model.embedding[8] = model.embedding[7]
    save_model("models", model)
    lengths, ties = kv.compare(results, task)
    assert lengths == [2]
    assert [(tie["prompt"], tie["position"]) for tie in ties] == [(1, 1)]


def test_a_batch_of_too_many_stories_is_bad_input(change):
    change({"kv_bench.batch": 1000})
    with pytest.raises(InputError, match=r"kv_bench\.batch"):
        kv_bench.main()
