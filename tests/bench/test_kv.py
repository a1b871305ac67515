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
        lengths=(23, 4),
        cache=True,
        eos_id=1,
        runtime=params.runtime,
    )


def test_decoding_steps_are_those_of_the_plain_model(finished_run):
    assert results(finished_run, "kv_bench")[1]["conditions"]["step"] == "plain"


def test_times_of_each_length_are_read_off_one_run(task, monkeypatch):
    """Seconds per further token leave the first one out."""
    runs = []

    def decode(task, model, prompts, new_tokens):
        runs.append(new_tokens)
        return [[4] * new_tokens] * 2, [1.0 + 0.5 * step for step in range(new_tokens)]

    monkeypatch.setattr(kv, "_decode", decode)
    times = kv.measure_times(task)
    assert times == [
        kv.KvTimes(tokens_per_s=46 / 12, first_token_s=1.0, rest_s_per_token=0.5),
        kv.KvTimes(tokens_per_s=8 / 2.5, first_token_s=1.0, rest_s_per_token=0.5),
    ]
    assert runs == [2, 23]  # the first is the warm-up


@pytest.mark.parametrize("cache", [True, False])
def test_ids_and_memory_of_a_length_are_those_of_a_run_to_it(task, params, cache):
    context = params.model.context
    lengths = (4, context - 4, 2 * context)  # the window slides in the last one
    whole = kv.measure(dataclasses.replace(task, lengths=lengths, cache=cache))
    for length, peak in zip(lengths, whole.peaks_mib, strict=True):
        alone = kv.measure(dataclasses.replace(task, lengths=(length,), cache=cache))
        assert alone.ids == [ids[:length] for ids in whole.ids]
        assert alone.peaks_mib == [pytest.approx(peak)]


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
        measured = kv.KvMeasurement([times] * 3, [[4, 5, 9], [6, last, 9]], [1.0] * 3)
        setting = dataclasses.replace(task, lengths=(3, 1, 2), cache=cache)
        settings.append(Trials(setting, measured, [[times] * 3]))
    with pytest.raises(CommandFailed, match="prompt 1, new token 1: 8 with, 7 without"):
        kv.compare_ids(settings)
    model, _ = load_model("models")
    with torch.no_grad():
        # tied output: words of equal vectors have equal logits
        model.embedding[8] = model.embedding[7]
    save_model("models", model)
    lengths, ties = kv.compare_ids(settings)
    assert lengths == [3, 1, 2]
    places = [(tie.new_tokens, tie.prompt, tie.position) for tie in ties]
    assert places == [(3, 1, 1), (2, 1, 1)]


def test_a_batch_of_too_many_stories_is_bad_input(change):
    change({"kv_bench.batch": 1000})
    with pytest.raises(InputError, match=r"kv_bench\.batch"):
        kv_bench.main()
