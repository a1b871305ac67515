import csv
import dataclasses
import json

import pytest
import torch

from stages import beam_bench
from tinylm.bench import beam, measure
from tinylm.config import InputError
from tinylm.model.storage import new_model, save_model
from tinylm.text.matrix_file import load_matrix
from tinylm.text.words import Tokenizer

METHODS = ["sampling", "greedy", "beam 1", "beam 3"]


@pytest.fixture
def trained(folder, model_settings):
    model = new_model(model_settings, 2, torch.from_numpy(load_matrix("data/vocab/embedding.safetensors")))
    save_model("models", model, layout="stories")
    return folder


def test_stage_writes_what_was_agreed(trained, inline):
    beam_bench.main()
    metrics = json.loads((trained / "metrics/beam_bench.json").read_text())
    assert (metrics["prompts"], metrics["new_tokens"]) == (3, 7)
    methods = metrics["methods"]
    assert list(methods) == METHODS
    assert methods["greedy"] == pytest.approx(
        methods["beam 1"], rel=1e-5
    )  # a beam of one that may stop is greedy decoding
    assert methods["beam 3"]["score"] >= methods["greedy"]["score"]
    assert {"bleu4", "log_prob", "log_prob_per_token", "distinct2", "repeated_4grams"} < set(methods["sampling"])
    times = json.loads((trained / "metrics/beam_bench_time.json").read_text())
    assert list(times["methods"]) == METHODS
    assert set(times["methods"]["beam 3"]) == set(beam_bench.FIGURES)
    rows = list(csv.DictReader((trained / "data/beam_bench/outputs.csv").open()))
    assert [row["method"] for row in rows] == METHODS * 3
    assert len({row["prompt"] for row in rows[:4]}) == 1
    assert float(rows[0]["log_prob"]) < 0
    plotted = list(csv.DictReader((trained / "plots/beam_bench_time.csv").open()))
    assert [(row["method"], row["width"]) for row in plotted[:4]] == list(zip(METHODS, ["1", "1", "1", "3"]))


def test_quality_is_the_same_twice(trained, inline):
    beam_bench.main()
    first = [(trained / name).read_bytes() for name in ("metrics/beam_bench.json", "data/beam_bench/outputs.csv")]
    beam_bench.main()
    assert first == [
        (trained / name).read_bytes() for name in ("metrics/beam_bench.json", "data/beam_bench/outputs.csv")
    ]


def test_a_method_that_dies_is_recorded_and_the_others_go_on(trained, monkeypatch):
    monkeypatch.setattr(
        measure, "in_own_process", lambda function, task: {"error": "oom"} if task.width == 3 else function(task)
    )
    beam_bench.main()
    times = json.loads((trained / "metrics/beam_bench_time.json").read_text())
    assert times["not_measured"] == [{"setting": "beam 3", "figure": "all", "reason": "oom"}]
    assert list(json.loads((trained / "metrics/beam_bench.json").read_text())["methods"]) == METHODS[:3]


def test_the_timed_run_has_a_fixed_length(trained, params, monkeypatch):
    settings = beam.BeamBenchSettings((3,), 2, 2, 6, 1)
    decode = beam_bench.read_section(params, "decode", beam_bench.DecodeSettings)
    tokenizer = Tokenizer.from_file("data/vocab/tokenizer.json")
    prompts = [[0, 5], [0, 9]]
    shared = {"model": "models", "tokenizer": "", "device": "cpu", "threads": 1}
    model, _ = beam.load_model("models", "cpu")
    for task in beam.make_tasks(settings, decode, prompts=prompts, **shared):
        found = beam.continue_prompts(task, model, tokenizer, prompts, False)
        assert [len(ids) for ids, _ in found] == [6, 6]


def test_references_are_the_stories_own_next_tokens(trained):
    store = beam.TokenStore("data/tokens", "evaluation")
    prompts = beam.story_prompts(store, beam.BeamBenchSettings((1,), 4, 3, 5, 1))
    stories = [store.story(index).tolist() for index in range(len(store))]
    for prompt in prompts:
        assert (len(prompt.ids), prompt.ids[0]) == (4, 0)
        assert any(story[: 4 + len(prompt.reference)] == [*prompt.ids, *prompt.reference] for story in stories)


def test_settings_that_do_not_fit_are_bad_input(trained, params, change):
    settings = beam.BeamBenchSettings((1, 40), 3, 2, 7, 1)
    with pytest.raises(InputError, match=r"beam_bench\.widths = \[40\]; allowed: at most the vocabulary's 35"):
        beam.check_widths(settings, 35)
    change(params, "beam_bench", prompt_tokens=50)
    with pytest.raises(InputError, match=r"beam_bench\.prompt_tokens = 50"):
        beam_bench.main()


def test_greedy_takes_no_penalty(params):
    decode = beam_bench.read_section(params, "decode", beam_bench.DecodeSettings)
    settings = beam.BeamBenchSettings((2,), 2, 2, 6, 1)
    tasks = beam.make_tasks(
        settings,
        dataclasses.replace(decode, repetition_penalty=1.5),
        prompts=[],
        model="",
        tokenizer="",
        device="cpu",
        threads=1,
    )
    assert [(task.name, task.width, task.decode.repetition_penalty) for task in tasks] == [
        ("sampling", None, 1.5), ("greedy", None, 1.0), ("beam 2", 2, 1.5)
    ]  # fmt: skip
    assert tasks[1].decode.temperature == 0.0
