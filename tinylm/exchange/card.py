"""The model card: README.md of a published model, its text and figures from the files that the pipeline wrote.

The head follows https://huggingface.co/docs/hub/model-cards: language, licence, tags, and the results as `model-index`.
"""

import dataclasses
from typing import Any

import yaml

from tinylm.exchange.card_sections import limits, metrics, origin_text, sample, usage
from tinylm.exchange.licences import DataLicence
from tinylm.exchange.markdown import Files, escape, to_markdown
from tinylm.exchange.publication import Publication
from tinylm.reporting import chance_sections, method_sections, run_sections
from tinylm.reporting.blocks import Blocks, Paragraph, fold, joined, paragraph
from tinylm.reporting.sources import Run, as_number

OF_THE_MODEL = ("data", "vocab", "embedding", "model", "train", "decode", "evaluate")  # sections of params.yaml


def write_card(run: Run, publication: Publication, pictures: Files) -> str:
    """README.md as text; `pictures`: name in reporting.pictures -> (path in the repository, words for it)."""
    settings = dataclasses.replace(run, params={key: run.params[key] for key in OF_THE_MODEL if key in run.params})
    sections: dict[str, Blocks] = {
        "Data": method_sections.data(run) + paragraph(_data_licence(publication.data)),
        "Model": method_sections.model(run),
        "Training": method_sections.training(run) + run_sections.curves(run),
        "Metrics": metrics(run) + joined(paragraph(f"Not here: {line}.") for line in publication.left_out),
        "Seeds": chance_sections.seeds(run),
        "Is it memorised?": chance_sections.memorised(run)[:3],  # the tables, not the texts
        "What it wrote": sample(run),
        "Limits": limits(run, publication.lacks),
        "Where it comes from": origin_text(publication),
        "Parameters": fold("All that made it, as in params.yaml", run_sections.settings(settings)[1:]),
    }
    leads: Blocks = [block for block in run_sections.summary(run) if isinstance(block, Paragraph)]
    parts = [
        f"---\n{_head(run, publication)}---\n",
        f"# {escape(publication.repo.partition('/')[2])}",
        to_markdown(leads, pictures),
        f"## How to use it\n\n{usage(run, publication)}",
        *(f"## {title}\n\n{to_markdown(blocks, pictures)}" for title, blocks in sections.items() if blocks),
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def _data_licence(data: DataLicence) -> str:
    stated = f"Licence of the data: {data.name} ({data.said_by})" if data.name else "Its licence is not known here"
    return f"The data is {data.data}. {stated}."


def _head(run: Run, publication: Publication) -> str:
    """The YAML that the hub reads."""
    source, hub_id = run.param("data", "source"), run.param("data", "hub_id")
    english = source == "storybook" or (source == "hub" and hub_id == "roneneldan/TinyStories")
    stock = publication.format == "transformers"
    values: dict[str, Any] = {
        "language": ["en"] if english else None,
        "license": publication.licence,
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["tinylm", "small-language-model", "dvc", *([] if stock else ["custom_code"])],
        "datasets": [hub_id] if source == "hub" else None,
        "model-index": _results(run, publication),
    }
    known = {key: value for key, value in values.items() if value}
    return yaml.safe_dump(known, sort_keys=False, allow_unicode=True, width=120)


def _results(run: Run, publication: Publication) -> list[dict[str, Any]]:
    figures = {
        "perplexity": ("perplexity", "perplexity on the evaluation split"),
        "bits_per_byte": ("bits_per_byte", "bits per byte of the normalised text"),
    }
    rows = [
        {"type": kind, "value": value, "name": name}
        for key, (kind, name) in figures.items()
        if (value := as_number(run.get("evaluate", key))) is not None
    ]
    if not rows:
        return []
    kind = str(run.param("data", "hub_id" if run.param("data", "source") == "hub" else "source"))
    result = {
        "task": {"type": "text-generation"},
        "dataset": {"name": publication.data.data, "type": kind, "split": "evaluation"},
        "metrics": rows,
    }
    return [{"name": publication.repo.partition("/")[2], "results": [result]}]
