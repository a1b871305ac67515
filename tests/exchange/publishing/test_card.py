"""The model card: numbers from the run's files with their intervals, text of the data as it is."""

import ast
import dataclasses
import re

import pytest
import yaml
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt

from tinylm.exchange.card import Publication, data_licence, write_card
from tinylm.report.sources import ReportData

INTERVAL = {"value": 0.1579, "low": 0.1483, "high": 0.1667}


@pytest.fixture
def run(params) -> ReportData:
    """A run with numbers that occur nowhere else in the code."""
    split = {"stories": 1117, "words": 5003, "bytes": 9001}
    evaluate = {
        "perplexity": 5.813,
        "perplexity_interval": [5.711, 5.917],
        "raw_bits_per_byte": 0.512,
        "baselines": {"unigram": {"perplexity": 601.9, "nats_per_token": 6.4}},
        "samples": {"bleu4": INTERVAL},
    }
    results = {
        "download": {"source": "storybook", "splits": {"train": split, "held_out": split}},
        "vocab": {"size": 4231, "embedding": {"width": 128}},
        "train": {"parameters": 1234567, "tokens": 2718281},
        "evaluate": evaluate,
        "samples": [{"prompt": "once", "continuation": "the *first* | <b>one</b>"}],
    }
    return ReportData(params, results)


@pytest.fixture
def publication(params) -> Publication:
    return Publication(
        repo="me/stories",
        format="transformers",
        licence="mit",
        data=data_licence(params["data"], None),
        commit="0123456789ab",
        models_md5="c0ffee.dir",
        report=True,
        left_out=(),
        lacks=(),
    )


def sections(card: str) -> tuple[dict, dict[str, str]]:
    """(head, text by second-level title)."""
    _, head, body = card.split("---\n", 2)
    titles = re.split(r"^## (.+)$", body, flags=re.MULTILINE)
    return yaml.safe_load(head), dict(zip(titles[1::2], titles[2::2], strict=True))


def test_numbers_and_intervals_are_those_of_the_files(run, publication):
    card = write_card(run, publication)
    data = ModelCard(card).data  # as huggingface_hub reads the head
    assert (data.license, data.language) == ("mit", ["en"])
    _, text = sections(card)
    assert "| evaluation perplexity | 5.81 | 5.71 to 5.92 |" in text["Metrics"]
    assert "| BLEU-4 of its continuations | 0.158 | 0.148 to 0.167 |" in text["Metrics"]
    assert "| unigram: token frequencies | 602 | 6.400 |" in text["Metrics"]
    assert "1.23 million parameters" in text["Limits"]
    assert "vocabulary has 4,231 ids" in text["Data"]
    assert "| 1,117 |" in text["Data"]
    assert "mit" in text["Licence of the data"]
    assert "<b>" not in text["What it wrote"]
    assert "the *first* | &lt;b&gt;" in MarkdownIt().render(text["What it wrote"])


@pytest.mark.parametrize("form", ["transformers", "tinylm"])
def test_how_to_use_it_is_python_whatever_the_prompt(run, publication, form):
    prompt = "a \"b\" \\ 'c'\n```"
    run.params["runtime"]["sample_prompt"] = prompt
    changed = dataclasses.replace(publication, format=form)
    head, text = sections(write_card(run, changed))
    (code,) = re.findall(r"```python\n(.*?)^```$", text["How to use it"], re.DOTALL | re.MULTILINE)
    constants = [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]
    assert prompt in constants
    assert constants.count("me/stories") == 2
    assert code.count("trust_remote_code=True") == (2 if form == "tinylm" else 0)
    assert ("custom_code" in head["tags"]) == (form == "tinylm")


def test_what_is_missing_or_lacking_is_named(run, publication):
    del run.files["evaluate"]
    changed = dataclasses.replace(
        publication, left_out=("evaluate: old",), lacks=("decode.fallback_mass",), licence=None
    )
    head, text = sections(write_card(run, changed))
    assert "evaluate: old" in text["Metrics"]
    assert "evaluation perplexity" not in text["Metrics"]
    assert "decode.fallback_mass" in text["Limits"]
    assert "license" not in head
