import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stages import kv_bench
from tests.bench.conftest import results
from tests.support.runs import part
from tinylm.base.command import CommandFailed
from tinylm.base.config import InputError
from tinylm.bench import kv
from tinylm.bench.trials import Trials
from tinylm.model.checkpoint import load_model, save_model
from tinylm.run.benches import CacheSpeed, CacheTimes


@pytest.fixture
def task(params):
    return kv.KvTask(
        slide="half",
        prompts=[[0, 5, 6], [0, 9, 4]],
        new_tokens=23,
        cache=True,
        eos_id=1,
        runtime=params.runtime,
    )


def test_decoding_steps_are_those_of_the_plain_model(finished_run):
    assert results(finished_run, "kv_bench")[1]["conditions"]["step"] == "plain"


def test_seconds_per_further_token_leave_the_first_out(task, monkeypatch):
    monkeypatch.setattr(
        kv, "_decode", lambda task, model, prompts, new: ([[4] * new] * 2, 1.0, 12.0)
    )
    times = kv.measure_times(task)
    assert times == kv.KvTimes(tokens_per_s=46 / 12, first_token_s=1.0, rest_s_per_token=11 / 22)


@given(st.dictionaries(st.tuples(st.integers(2, 5), st.booleans()), st.floats(1, 9), max_size=5))
def test_metrics_are_those_of_the_longest_texts(speeds):
    rows = []
    for (length, cache), speed in speeds.items():
        row = {"new_tokens": length, "cache": cache, "tokens_per_s": speed, "peak_mib": 9 * speed}
        rows.append(part(CacheSpeed, **row))
    longest = max((length for length, _ in speeds), default=0)
    off, on = (speeds.get((longest, cache)) for cache in (False, True))
    assert kv.metrics_of(part(CacheTimes, settings=rows)) == {
        "kv/off": {"tokens/s": off, "peak_mib": off and 9 * off},
        "kv/on": {"tokens/s": on, "peak_mib": on and 9 * on, "speedup": on and off and round(on / off, 2)},
    }  # fmt: skip


def test_other_ids_fail_with_their_place_and_equal_logits_are_a_tie(task):
    settings = []
    for cache, last in ((False, 7), (True, 8)):
        times = kv.KvTimes(tokens_per_s=1.0, first_token_s=1.0, rest_s_per_token=1.0)
        measured = kv.KvMeasurement(times, [[4, 5], [6, last]], peak_mib=1.0)
        setting = dataclasses.replace(task, new_tokens=2, cache=cache)
        settings.append(Trials(setting, measured, [times]))
    with pytest.raises(CommandFailed, match="prompt 1, new token 1: 8 with, 7 without"):
        kv.compare_ids(settings)
    model, _ = load_model("models")
    with torch.no_grad():
        # tied output: words of equal vectors have equal logits
        model.embedding[8] = model.embedding[7]
    save_model("models", model)
    lengths, ties = kv.compare_ids(settings)
    assert lengths == [2]
    assert [(tie.prompt, tie.position) for tie in ties] == [(1, 1)]


def test_a_batch_of_too_many_stories_is_bad_input(change):
    change({"kv_bench.batch": 1000})
    with pytest.raises(InputError, match=r"kv_bench\.batch"):
        kv_bench.main()
