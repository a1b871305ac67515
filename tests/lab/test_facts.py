"""What the page says of a model and its run."""

from tests.support.small import random_model
from tinylm.decoding.settings import DecodeSettings
from tinylm.lab.making import facts
from tinylm.report.sources import ReportData
from tinylm.vocab.words import Splitter, WordTokenizer

TOKENIZER = WordTokenizer((f"w{i}" for i in range(37)), Splitter(True, "drop"))
COLUMNS = ("role", "layer", "head", "score", "baseline", "claimed")
ROLES = [
    dict(zip(COLUMNS, ("same word", 2, 1, 0.5, 0.4, False))),
    dict(zip(COLUMNS, ("previous token", 1, 3, 0.7, 0.1, True))),
]
ABLATION = [{"layer": 1, "head": 3, "loss_increase": 0.25, "low": 0.2, "high": 0.3}]


def facts_of(run):
    return facts(
        random_model(41, 20), TOKENIZER, DecodeSettings(temperature=0.7, top_k=9), run, "A title"
    )


def run_of(perplexity, prompts=()):
    evaluated = {"perplexity": perplexity}
    params = {"report": {"prompts": prompts}}
    samples = [{"prompt": text} for text in ("once there was", "once upon a", "long ago a")]
    files = {"evaluate": evaluated, "roles": ROLES, "ablation": ABLATION, "samples": samples}
    return ReportData(params, files)


def test_roles_and_costs_are_those_of_the_run():
    page = facts_of(run_of(2.5))
    assert page["heads"]["0.2"] == {
        "roles": [{"name": "previous token", "score": 0.7}],
        **{"increase": 0.25, "low": 0.2, "high": 0.3},
    }
    assert page["heads"]["1.0"] == {"roles": []}
    assert "perplexity is 2.50" in page["about"]
    assert page["prompt"] == page["openings"][0]
    assert (page["rules"]["temperature"], page["rules"]["topK"]) == (0.7, 9)


def test_openings_are_the_readers_own_or_those_of_evaluation_stories():
    assert facts_of(run_of(2.5))["openings"] == ["once there was", "long ago a"]
    assert facts_of(run_of(2.5, ["my dog", "my cat"]))["openings"] == ["my dog", "my cat"]
    without = facts_of(None)
    assert (without["heads"], without["openings"]) == ({}, [])
    assert "perplexity" not in without["about"]
