import csv
import dataclasses
import json

import pytest
import torch

from stages import beam_bench
from tinylm.base.config import InputError, read_section
from tinylm.base.files import write_json
from tinylm.bench import beam, measure
from tinylm.decoding.settings import DecodeSettings
from tinylm.model.checkpoint import new_model, save_model
from tinylm.vocab.matrix_file import load_matrix

METHODS = ["sampling", "greedy", "beam 1", "beam 3"]


def settings_of(**given):
    usual = {
        "widths": (1,),
        "prompts": 2,
        "prompt_tokens": 2,
        "new_tokens": 6,
        "cache": True,
        "stop_at_eos": False,
    }
    return beam.BeamBenchSettings(**usual | {"repeats": 1} | given)


@pytest.fixture
def trained(folder, model_settings):
    model = new_model(
        model_settings, torch.from_numpy(load_matrix("data/vocab/embedding.safetensors"))
    )
    save_model("models", model, layout="stories")
    return folder


def test_stage_writes_what_was_agreed(trained, inline):
    beam_bench.main()
    metrics = json.loads((trained / "data/figures/beam_bench.json").read_text())
    assert (metrics["prompts"], metrics["new_tokens"]) == (3, 7)
    methods = metrics["methods"]
    assert list(methods) == METHODS
    compared = {name: row.pop("against_greedy") for name, row in methods.items()}
    assert methods["greedy"] == pytest.approx(
        methods["beam 1"], rel=1e-5
    )  # a beam of one that may stop is greedy decoding
    assert compared["greedy"] == {
        "prompts": 3, "higher": 0, "lower": 0, "difference": {"value": 0.0, "low": 0.0, "high": 0.0}
    }  # fmt: skip
    assert (compared["beam 1"]["higher"], compared["beam 1"]["lower"]) == (0, 0)
    difference = methods["beam 3"]["log_prob"] - methods["greedy"]["log_prob"]
    assert compared["beam 3"]["difference"]["value"] == pytest.approx(difference / 3, abs=1e-6)
    assert compared["beam 3"]["prompts"] == 3
    assert all(
        "sense" not in row for row in methods.values()
    )  # nobody knows what makes sense in this corpus
    assert methods["beam 3"]["score"] >= methods["greedy"]["score"]
    assert {"bleu4", "log_prob", "log_prob_per_token", "distinct2", "repeated_4grams"} < set(
        methods["sampling"]
    )
    times = json.loads((trained / "metrics/beam_bench_time.json").read_text())
    assert list(times["methods"]) == METHODS
    stated = {"cache": True, "stop_at_eos": False, "texts_stop_at_eos": True}
    for rows in (methods, times["methods"]):
        assert all(stated.items() <= row.items() for row in rows.values())
    assert set(times["methods"]["beam 3"]) == {*measure.with_spread(beam.TIMES), *stated}
    rows = list(csv.DictReader((trained / "data/beam_bench/outputs.csv").open()))
    assert [row["method"] for row in rows] == METHODS * 3
    assert len({row["prompt"] for row in rows[:4]}) == 1
    assert float(rows[0]["log_prob"]) < 0
    plotted = list(csv.DictReader((trained / "plots/beam_bench_time.csv").open()))
    assert [(row["method"], row["width"]) for row in plotted[:4]] == list(
        zip(METHODS, ["1", "1", "1", "3"])
    )


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("stop", [False, True])
def test_cache_and_stop_rule_are_those_of_the_settings_and_stated(
    trained, params, change, inline, monkeypatch, cache, stop
):
    asked = []
    for name in ("generate", "beam_search"):
        real = getattr(beam, name)

        def spy(*arguments, real=real, **options):
            asked.append((options["use_cache"], options["stop_at_eos"], len(arguments[1])))
            return real(*arguments, **options)

        monkeypatch.setattr(beam, name, spy)
    change(params, "beam_bench", cache=cache, stop_at_eos=stop)
    beam_bench.main()
    assert {use for use, *_ in asked} == {cache}
    assert {at_end for _, at_end, rows in asked if rows == 1} == {stop}  # timed
    assert sum(at_end for _, at_end, rows in asked if rows == 3) == len(METHODS) * (
        1 + stop
    )  # texts, and timed
    for name in ("data/figures/beam_bench", "metrics/beam_bench_time"):
        written = json.loads((trained / f"{name}.json").read_text())
        for row in written["methods"].values():
            assert (row["cache"], row["stop_at_eos"], row["texts_stop_at_eos"]) == (
                cache,
                stop,
                True,
            )


def test_stories_of_the_storybook_are_asked_whether_they_make_sense(trained, inline, monkeypatch):
    """More prompts than are timed: each method continues them all, and is compared with greedy decoding on them."""
    write_json("data/figures/download.json", {"source": "storybook"})
    asked = []
    monkeypatch.setattr(
        beam, "judge", lambda result, task, _: asked.append((result, task)) or {"sense": "judged"}
    )
    monkeypatch.setattr(beam, "JUDGED", 4)
    beam_bench.main()
    methods = json.loads((trained / "data/figures/beam_bench.json").read_text())["methods"]
    assert {row["sense"] for row in methods.values()} == {"judged"}
    assert {row["against_greedy"]["prompts"] for row in methods.values()} == {4}
    assert {len(result["judged"]) for result, _ in asked} == {len(asked[0][1].judged)} == {4}


def test_a_judged_text_is_graded_with_its_prompt(monkeypatch):
    class Tokenizer:
        eos_id = 1

        def decode(self, ids):
            return " ".join(
                {2: "once", 3: "upon", 4: "a", 5: "time", 6: "zzz"}[i] for i in ids if i > 1
            )

    task = beam.Task(
        name="greedy", width=None, decode=DecodeSettings(), settings=settings_of(), prompts=[], judged=[[0, 2], [0, 2]],
        model="", tokenizer="", device="cpu", threads=1,
    )  # fmt: skip
    result = {"judged": [([3, 4, 5], -1.0), ([3, 6, 1], -1.0)]}
    found = beam.judge(result, task, Tokenizer())["sense"]
    assert (found["texts"], found["possible"]["value"], found["words"]["value"]) == (2, 0.5, 5.0)
    assert beam.judge(result, dataclasses.replace(task, judged=[]), Tokenizer()) == {}


def test_each_prompts_own_tokens_go_into_its_speed(monkeypatch):
    clock = iter(
        [0.0, 9.0, 0.0, 1.0, 1.0, 2.0, 2.0, 6.0, 6.0, 9.0]
    )  # a warm-up, three prompts, all at once

    def continued(task, decoder, tokenizer, prompts, *, stop_at_eos):
        assert stop_at_eos
        return [(prompt[1:], -1.0) for prompt in prompts]

    monkeypatch.setattr(beam, "_prepared", lambda task: (None, None, torch.device("cpu")))
    monkeypatch.setattr(beam, "continue_prompts", continued)
    monkeypatch.setattr(beam.time, "perf_counter", lambda: next(clock))
    task = beam.Task(
        name="greedy", width=None, decode=None, settings=settings_of(stop_at_eos=True),
        prompts=[[0, 4], [0, 4, 5], [0, 4, 5, 6]], model="", tokenizer="", device="cpu", threads=1,
    )  # fmt: skip
    assert beam.time_task(task) == {
        "tokens_per_s": 1.0,
        "s_per_prompt": 1.0,
        "batch_tokens_per_s": 2.0,
    }


def test_a_method_that_dies_is_recorded_and_the_others_go_on(trained, monkeypatch):
    monkeypatch.setattr(
        measure,
        "in_own_process",
        lambda function, task: {"error": "oom"} if task.width == 3 else function(task),
    )
    beam_bench.main()
    times = json.loads((trained / "metrics/beam_bench_time.json").read_text())
    assert times["not_measured"] == [{"setting": "beam 3", "figure": "all", "reason": "oom"}]
    assert (
        list(json.loads((trained / "data/figures/beam_bench.json").read_text())["methods"])
        == METHODS[:3]
    )


def test_references_are_the_stories_own_next_tokens(trained):
    store = beam.TokenStore("data/tokens", "evaluation")
    prompts = beam.story_prompts(store, settings_of(prompts=4, prompt_tokens=3, new_tokens=5), 0)
    stories = [store.story(index).tolist() for index in range(len(store))]
    for prompt in prompts:
        assert (len(prompt.ids), prompt.ids[0]) == (4, 0)
        assert any(
            story[: 4 + len(prompt.reference)] == [*prompt.ids, *prompt.reference]
            for story in stories
        )


def test_settings_that_do_not_fit_are_bad_input(trained, params, change):
    settings = settings_of(widths=(1, 40))
    with pytest.raises(
        InputError, match=r"beam_bench\.widths = \[40\]; allowed: at most the vocabulary's 35"
    ):
        beam.check_widths(settings, 35)
    change(params, "beam_bench", prompt_tokens=50)
    with pytest.raises(InputError, match=r"beam_bench\.prompt_tokens = 50"):
        beam_bench.main()


def test_greedy_takes_no_penalty(params):
    decode = read_section(params, "decode", beam_bench.DecodeSettings)
    decode = dataclasses.replace(decode, repetition_penalty=1.5, temperature_end=1.2)
    shared = {"prompts": [], "model": "", "tokenizer": "", "device": "cpu", "threads": 1}
    tasks = beam.make_tasks(settings_of(widths=(2,)), decode, **shared)
    assert [(task.name, task.width, task.decode.repetition_penalty) for task in tasks] == [
        ("sampling", None, 1.5), ("greedy", None, 1.0), ("beam 2", 2, 1.5)
    ]  # fmt: skip
    assert (tasks[1].decode.temperature, tasks[1].decode.temperature_end) == (0.0, None)
