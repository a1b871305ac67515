"""What the page says of a model and its run."""

from tests.support.small import random_model
from tinylm.decoding.settings import DecodeSettings
from tinylm.lab.facts import NOT_MEASURED, SINK, facts
from tinylm.report.sources import Run
from tinylm.vocab.words import Splitter, WordTokenizer

TOKENIZER = WordTokenizer((f"w{i}" for i in range(37)), Splitter(True, "drop"))
ROLES = [
    {
        "role": "same word",
        "layer": "2",
        "head": "1",
        "score": "0.5",
        "baseline": "0.4",
        "claimed": "False",
    },
    {
        "role": "previous token",
        "layer": "1",
        "head": "3",
        "score": "0.7",
        "baseline": "0.1",
        "claimed": "True",
    },
]
ABLATION = [{"layer": "1", "head": "3", "loss_increase": "0.25", "low": "0.2", "high": "0.3"}]


def known(run):
    return facts(
        random_model(41, 20), TOKENIZER, DecodeSettings(temperature=0.7, top_k=9), run, "A title"
    )


def run_of(ours, counted):
    evaluated = {"perplexity": ours, "baselines": {"kneser_ney": {"perplexity": counted}}}
    params = {"train": {"sample_prompt": "two dogs"}}
    return Run(params, {"evaluate": evaluated, "roles": ROLES, "ablation": ABLATION}, {})


def test_roles_and_costs_are_those_of_the_run():
    found = known(run_of(2.5, 14.0))
    assert found["heads"]["0.2"] == {
        "roles": [{"name": "previous token", "score": 0.7, "even": 0.1}],
        **{"increase": 0.25, "low": 0.2, "high": 0.3},
    }
    assert found["heads"]["1.0"] == {"roles": []}
    assert found["head"] == [0, 2]  # the one whose role stands out most is shown first
    assert found["perplexity"] == 2.5
    assert (found["prompt"], found["rules"]["temperature"], found["rules"]["topK"]) == (
        "two dogs",
        0.7,
        9,
    )


def test_without_a_run_nothing_is_said_of_one():
    found = known(None)
    assert (found["heads"], found["perplexity"]) == ({}, None)
    assert found["heads_note"] == NOT_MEASURED + SINK
    assert "perplexity" not in found["about"]
