"""The model card: every figure from the run's files, intervals beside them, text of the data shown as it stands."""

import ast
import re

import pytest
import yaml
from markdown_it import MarkdownIt

from tinylm.exchange.card import write_card
from tinylm.exchange.publication import Origin, Publication, data_licence
from tinylm.report.sources import Run

PICTURES = {"loss_tokens": ("pictures/loss.png", "Loss from 8 to 1")}


@pytest.fixture
def run(params) -> Run:
    """A run with figures that no other place of the code holds."""
    splits = {
        name: {"stories": 1117 + n, "words": 5003, "bytes": 9001}
        for n, name in enumerate(["train", "held_out"])
    }
    interval = {"value": 0.1579, "low": 0.1483, "high": 0.1667}
    found = {
        "download": {"source": "storybook", "splits": splits},
        "vocab": {
            "size": 4231,
            "unknown_share": {"evaluation": 0.0123},
            "embedding": {"width": 128},
        },
        "train": {"parameters": 1234567, "tokens": 2718281, "held_out_perplexity": 6.173},
        "evaluate": {
            "perplexity": 5.813,
            "perplexity_interval": [5.711, 5.917],
            "nats_per_token": 1.76,
            "bits_per_byte": 0.4441,
            "raw_bits_per_byte": 0.512,
            "baselines": {"unigram": {"perplexity": 601.9, "nats_per_token": 6.4}},
            "samples": {
                "bleu4": interval,
                "continuation_perplexity": {"value": 5.5, "low": 5.1, "high": 5.9},
            },
        },
        "samples": [
            {"prompt": "once", "continuation": "the *first* | <b>one</b>"},
            {"prompt": "then", "continuation": "another"},
        ],
    }
    return Run(params, found, {})


@pytest.fixture
def publication(params) -> Publication:
    origin = Origin("0123456789ab", "c0ffee.dir", ())
    return Publication(
        "me/stories",
        "transformers",
        "mit",
        data_licence(params["data"], None),
        origin,
        True,
        (),
        (),
    )


def parts(card: str) -> tuple[dict, dict[str, str]]:
    """(head, text by second-level title)."""
    _, head, body = card.split("---\n", 2)
    titles = re.split(r"^## (.+)$", body, flags=re.MULTILINE)
    return yaml.safe_load(head), {"": titles[0], **dict(zip(titles[1::2], titles[2::2]))}


def test_the_head_is_what_the_hub_reads(run, publication):
    head, _ = parts(write_card(run, publication, PICTURES))
    assert head["license"] == "mit"
    assert head["language"] == ["en"]
    assert (head["library_name"], head["pipeline_tag"]) == ("transformers", "text-generation")
    (result,) = head["model-index"][0]["results"]
    assert {row["type"]: row["value"] for row in result["metrics"]} == {
        "perplexity": 5.813,
        "raw_bits_per_byte": 0.512,
        "bits_per_byte": 0.4441,
    }


def test_huggingface_hub_reads_the_head(run, publication):
    from huggingface_hub import ModelCard

    data = ModelCard(write_card(run, publication, PICTURES)).data
    assert data.model_name == "stories"
    assert [found.metric_value for found in data.eval_results] == [5.813, 0.512, 0.4441]
    assert data.license == "mit"


def test_figures_and_intervals_are_those_of_the_files(run, publication):
    _, text = parts(write_card(run, publication, PICTURES))
    assert "| perplexity on evaluation | 5.81 | 5.71 to 5.92 |" in text["Metrics"]
    assert "| BLEU-4 of its continuations | 0.158 | 0.148 to 0.167 |" in text["Metrics"]
    assert "| bits per byte, normalised text | 0.444 | – |" in text["Metrics"]
    assert "| unigram | 602 | 6.400 |" in text["Metrics"]
    assert "1,000 bootstrap resamples" in text["Metrics"]
    assert "1.23 million parameters" in text["Limits"]
    assert "1.2 % of evaluation" in text["Limits"]
    assert "4,231 ids" in text["Data"]
    assert "| 1,117 |" in text["Data"]
    assert "| sample_prompt | once upon a time |" in text["Parameters"]
    assert "runtime" not in text["Parameters"]


def test_sections_that_a_reader_looks_for(run, publication):
    _, text = parts(write_card(run, publication, PICTURES))
    wanted = {
        "How to use it",
        "Data",
        "Model",
        "Training",
        "Metrics",
        "Limits",
        "Where it comes from",
        "Parameters",
    }
    assert wanted <= set(text)
    assert "![Loss from 8 to 1](pictures/loss.png" in text["Training"]
    assert "mit (tinylm's own licence)" in text["Licence of the data"]


@pytest.mark.parametrize(("form", "trusting"), [("transformers", 0), ("tinylm", 1)])
def test_use_is_four_lines_of_python(run, publication, form, trusting):
    changed = Publication(**(vars(publication) | {"format": form}))
    head, text = parts(write_card(run, changed, PICTURES))
    (code,) = re.findall(r"```python\n(.*?)```", text["How to use it"], re.DOTALL)
    assert len(code.splitlines()) == 4
    assert code.count('"me/stories"') == 2
    assert code.count("trust_remote_code=True") == 2 * trusting
    assert ("custom_code" in head["tags"]) == bool(trusting)
    assert ("modeling_tinylm.py" in text["How to use it"]) == bool(trusting)
    ast.parse(code)


def test_a_prompt_with_quotes_stays_a_string(run, publication):
    run.params["train"]["sample_prompt"] = "a \"b\" \\ 'c'\n```"
    _, text = parts(write_card(run, publication, PICTURES))
    (code,) = re.findall(r"```python\n(.*?)^```$", text["How to use it"], re.DOTALL | re.MULTILINE)
    constants = {node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)}
    assert "a \"b\" \\ 'c'\n```" in constants


def test_text_of_the_data_is_shown_as_it_stands(run, publication):
    _, text = parts(write_card(run, publication, PICTURES))
    page = MarkdownIt().render(text["What it wrote"])
    assert "the *first* | &lt;b&gt;one&lt;/b&gt;" in page
    assert "another" not in page


def test_where_it_comes_from(run, publication):
    origin = parts(write_card(run, publication, PICTURES))[1]["Where it comes from"]
    assert "commit 0123456789ab" in origin
    assert "c0ffee.dir" in origin
    assert "“git checkout 0123456789ab”, then “dvc repro”" in origin


@pytest.mark.parametrize(
    ("origin", "word"),
    [
        (Origin("0123456789ab+", "c0ffee.dir", ()), "edited since"),
        (Origin("0123456789ab", "c0ffee.dir", ("params.yaml",)), "Not committed: params.yaml"),
        (Origin(None, "c0ffee.dir", ()), "under no version control"),
    ],
)
def test_what_no_commit_holds_is_said_and_no_checkout_promised(run, publication, origin, word):
    changed = Publication(**(vars(publication) | {"origin": origin}))
    text = parts(write_card(run, changed, PICTURES))[1]["Where it comes from"]
    assert word in text
    assert "git checkout" not in text


def test_what_is_missing_is_said(run, publication):
    del run.found["evaluate"]
    changed = Publication(
        **(
            vars(publication)
            | {"left_out": ("evaluate: data/tokens was another",), "report": False, "licence": None}
        )
    )
    head, text = parts(write_card(run, changed, PICTURES))
    assert "Not here: evaluate: data/tokens was another." in text["Metrics"]
    assert "perplexity on evaluation" not in text["Metrics"]
    assert "report/index.html" not in text["Where it comes from"]
    assert not {"model-index", "license"} & set(head)


def test_what_generate_lacks_is_said(run, publication):
    changed = Publication(
        **(vars(publication) | {"lacks": ("decode.fallback_mass = 0.5: top-k 50 alone",)})
    )
    assert (
        "decode.fallback_mass = 0.5: top-k 50 alone"
        in parts(write_card(run, changed, PICTURES))[1]["Limits"]
    )


def test_sense_stands_where_somebody_can_tell(run, publication):
    _, text = parts(write_card(run, publication, PICTURES))
    assert "Does it make sense?" not in text
    own = {
        "texts": 50,
        "possible": {"value": 0.2, "low": 0.1, "high": 0.3},
        "words": {"value": 38.4, "low": 33, "high": 44},
    }
    run.found["evaluate"]["sense"] = {
        "protocol": "read",
        "kinds": {},
        "methods": {"decode": own | {"kinds": {}}},
    }
    _, text = parts(write_card(run, publication, PICTURES))
    assert "38.4 (33.0 to 44.0)" in text["Does it make sense?"]


def test_seeds_and_memorised_stand_where_they_were_measured(run, publication):
    _, text = parts(write_card(run, publication, PICTURES))
    assert not {"Seeds", "Is it memorised?"} & set(text)
    run.found["seeds"] = {"n": 3, "perplexity": {"mean": 5.9, "sd": 0.1234, "difference": 0.5}}
    side = {
        "count": 20,
        "words": 900,
        "longest_run": {"value": 7.7, "low": 6, "high": 9},
        "new": {"3": 0.4},
    }
    run.found["evaluate"]["memorised"] = {
        "continuations": side,
        "references": side,
        "protocol": "words",
    }
    _, text = parts(write_card(run, publication, PICTURES))
    assert "0.1234" in text["Seeds"]
    assert "7.70 (6.00 to 9.00)" in text["Is it memorised?"]
