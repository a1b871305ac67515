import csv

import pytest

from stages import beam_bench
from tinylm.base.config import InputError
from tinylm.base.files import write_json
from tinylm.bench import beam, measure
from tinylm.decoding.settings import DecodeSettings
from tinylm.kernels.decoding.step import decoding_step

METHODS = ["sampling", "greedy", "beam 1", "beam 3"]


def settings_of(**given):
    usual = {"widths": (1,), "prompts": 2, "new_tokens": 6, "length_penalty": 0.6}
    return beam.BeamBenchSettings(**usual | {"cache": True, "stop_at_eos": False} | given)


def greedy_task(**given):
    usual = {
        "name": "greedy",
        "width": None,
        "decode": DecodeSettings(),
        "slide": "half",
        "settings": settings_of(),
    }
    return beam.Task(**usual | {"runtime": None, "prompts": [], "judged": []} | given)


def test_methods_are_compared_with_greedy_decoding(trained, inline, folder, results):
    beam_bench.main()
    found, times = results("beam_bench")
    methods = found["methods"]
    assert list(methods) == list(times["methods"]) == METHODS
    step = decoding_step(trained).name  # plain without a compiler
    assert times["conditions"]["step"] == step
    # a beam of one that may stop is greedy decoding
    assert methods["greedy"] == pytest.approx(methods["beam 1"], rel=1e-5)
    assert set(times["methods"]["beam 3"]) == {
        f"{end}{key}" for key in beam.BENCH.times for end in ("", "low_", "high_")
    }
    # the story generator judges its own stories alone
    assert all("possible" not in row for row in methods.values())
    rows = list(csv.DictReader((folder / "data/beam_bench/outputs.csv").open()))
    assert [row["method"] for row in rows] == METHODS * 3
    assert len({row["prompt"] for row in rows[:4]}) == 1
    greedy = [row for row in rows if row["method"] == "greedy"]
    widest = [row for row in rows if row["method"] == "beam 3"]
    scores = [sum(float(row["score"]) for row in side) for side in (greedy, widest)]
    assert scores[1] >= scores[0]
    plotted = list(csv.DictReader((folder / "plots/beam_bench.csv").open()))
    assert [row["width"] for row in plotted[:4]] == ["1", "1", "1", "3"]


def test_texts_of_the_storybook_are_judged(trained, inline, results, monkeypatch):
    """More prompts than are timed: each method continues them all, and is compared on them."""
    write_json("data/figures/download.json", {"source": "storybook"})
    judged = []

    def judge(result, task, _):
        judged.append(len(result["judged"]))
        return "judged"

    monkeypatch.setattr(beam, "judge", judge)
    monkeypatch.setattr(beam, "JUDGED", 4)
    beam_bench.main()
    methods = results("beam_bench")[0]["methods"]
    assert judged == [4] * len(METHODS)
    assert {row["possible"] for row in methods.values()} == {"judged"}
    assert {row["judged"] for row in methods.values()} == {4}


def test_a_judged_text_is_read_with_its_prompt():
    class Tokenizer:
        eos_id = 1

        def decode(self, ids):
            words = {2: "once", 3: "upon", 4: "a", 5: "time", 6: "zzz"}
            return " ".join(words[token] for token in ids if token > 1)

    result = {"judged": [([3, 4, 5], -1.0), ([3, 6, 1], -1.0)]}
    task = greedy_task(judged=[[0, 2], [0, 2]])
    assert beam.judge(result, task, Tokenizer())["value"] == 0.5


def test_settings_that_do_not_fit_are_bad_input(trained, inline, params, change, monkeypatch):
    change(params, "beam_bench", widths=[1, 40])
    with pytest.raises(InputError, match="beam width"):
        beam_bench.main()
    monkeypatch.setattr(measure, "PROMPT_TOKENS", 50)
    with pytest.raises(InputError, match="50 tokens"):
        beam_bench.main()
