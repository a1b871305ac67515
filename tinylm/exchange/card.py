"""The model card: README.md of a published model, from the files that the pipeline wrote.

The head follows https://huggingface.co/docs/hub/model-cards: language, licence, tags, data.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tinylm.report import render
from tinylm.report.values import template_values
from tinylm.report.wording import ABSENT, ends, number
from tinylm.run.finished_run import FinishedRun
from tinylm.run.interval import Interval

TEMPLATE = Path(__file__).with_name("card.md.j2")
TINYSTORIES = "roneneldan/TinyStories"
LICENCES = {TINYSTORIES: "cdla-sharing-1.0"}  # as its page on the hub states
_SAMPLES = {
    "continuation_perplexity": "perplexity of its continuations",
    **{f"bleu{n}": f"BLEU-{n} of its continuations" for n in range(1, 5)},
}


@dataclasses.dataclass(frozen=True)
class DataLicence:
    """The data in words, and the name of its licence; None if it is not known."""

    data: str
    name: str | None


@dataclasses.dataclass(frozen=True)
class Publication:
    """What a published folder states about itself.

    repo: OWNER/NAME, or a name alone where it is on no hub.
    format: of the weights, transformers or tinylm.
    commit: of the code, with "+" appended if the code differs from it; None outside git.
    models_md5: of models/ in dvc.lock.
    left_out: the files that do not belong to this run, and why.
    lacks: the decoding settings that generate() lacks.
    report, weights: whether they are published with the card.
    """

    repo: str
    format: str
    data: DataLicence
    commit: str | None
    models_md5: str
    lacks: tuple[str, ...]
    licence: str | None = None
    report: bool = False
    left_out: tuple[str, ...] = ()
    weights: bool = True


def data_licence(section: Mapping[str, Any], given: str | None) -> DataLicence:
    """The licence for section `data` of params.yaml; `given`, the user's statement, wins."""
    licence = None
    if section["source"] == "storybook":
        data = "the storybook, stories that tinylm generates"
        licence = "mit"
    elif section["source"] == "world":
        data = f"stories that tinylm generates from the world {Path(section['path']).name}"
    elif section["source"] == "hub":
        hub_id, _, revision = section["hub"].partition("@")
        data = f"{hub_id} of the Hugging Face hub, revision {revision}"
        licence = LICENCES.get(hub_id)
    else:
        data = f"{Path(section['path']).name}, read from a local file or folder"
    return DataLicence(data, licence if given is None else given)


def _metrics(run: FinishedRun) -> list[tuple[str, str, str]]:
    """Name, value and interval of every measure of quality that the run has."""
    rows = []
    if run.evaluate:
        evaluated = run.evaluate
        interval = ends(evaluated.perplexity_interval)
        rows.append(("evaluation perplexity", number(evaluated.perplexity), interval))
        bits = number(evaluated.raw_bits_per_byte)
        rows.append(("bits per byte of the raw text", bits, ""))
        rows.append(("nats per token", number(evaluated.nats_per_token), ""))
        for metric, name in _SAMPLES.items():
            measured: Interval = getattr(evaluated.samples, metric)
            rows.append((name, number(measured.value), ends(measured)))
    if run.train:
        rows.append(("held-out perplexity", number(run.train.held_out_perplexity), ""))
    return [row for row in rows if row[1] != ABSENT]


def write_card(run: FinishedRun, publication: Publication) -> str:
    """README.md as text."""
    prompt = repr(str(run.param("runtime", "sample_prompt") or ""))
    text = render.render(
        TEMPLATE,
        **template_values(run),
        name=publication.repo.rpartition("/")[2],
        publication=publication,
        repo=Markup(publication.repo),
        is_remote_code=publication.format == "tinylm",
        prompt=Markup(prompt),
        metrics=_metrics(run),
    )
    return f"---\n{_head(run, publication)}---\n\n{text}"


def _head(run: FinishedRun, publication: Publication) -> str:
    """The YAML that the hub reads."""
    from huggingface_hub import ModelCardData

    source = run.param("data", "source")
    hub_id = (run.param("data", "hub") or "").partition("@")[0]
    is_english = source == "storybook" or (source == "hub" and hub_id == TINYSTORIES)
    tags = ["tinylm", "small-language-model", "dvc"]
    if publication.format == "tinylm":
        tags.append("custom_code")
    head = ModelCardData(
        language=["en"] if is_english else None,
        license=publication.licence,
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=tags,
        datasets=[hub_id] if source == "hub" else None,
    )
    return f"{head.to_yaml()}\n"
