"""The model card: README.md of a published model, its text and figures from the files that the pipeline wrote.

The head follows https://huggingface.co/docs/hub/model-cards: language, licence, tags, and the results as `model-index`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import yaml

from tinylm.exchange.markdown import Files, escape, to_markdown
from tinylm.exchange.publication import DataLicence, Publication
from tinylm.report import (
    chance_sections,
    method_sections,
    pair_sections,
    run_sections,
    sense_sections,
)
from tinylm.report.blocks import (
    Blocks,
    Paragraph,
    Quotes,
    bullets,
    fold,
    joined,
    paragraph,
    record_table,
    table,
)
from tinylm.report.pictures import baseline_rows
from tinylm.report.sources import Run, as_number
from tinylm.report.wording import ABSENT, big, count, figure, interval, loss, share, visible

_SAMPLES = {
    "continuation_perplexity": "perplexity of its continuations",
    **{f"bleu{n}": f"BLEU-{n} of its continuations" for n in range(1, 5)},
}


def usage(run: Run, publication: Publication) -> str:
    """Four lines of Python that continue the sample prompt of training, after a line that says whose code runs."""
    prompt = repr(str(run.param("train", "sample_prompt") or ""))
    trust, note = "", "With stock transformers and torch; no code of this repository runs:"
    if publication.format == "tinylm":
        trust = ", trust_remote_code=True"
        note = (
            "With transformers and torch. `trust_remote_code=True` runs `modeling_tinylm.py` of this repository on "
            "your machine: read it first."
        )
    return f"""{note}

```python
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("{publication.repo}"{trust})
model = AutoModelForCausalLM.from_pretrained("{publication.repo}"{trust})
print(tokenizer.decode(model.generate(**tokenizer({prompt}, return_tensors="pt"))[0], skip_special_tokens=True))
```"""


def metrics(run: Run) -> Blocks:
    """Every quality figure with its interval, then the baselines on the same targets."""
    train, found = run.mapping("train"), run.mapping("evaluate")
    samples = run.mapping("evaluate", "samples")
    rows = [
        [
            "perplexity on evaluation",
            figure(found.get("perplexity")),
            _ends(found.get("perplexity_interval")),
        ],
        ["bits per byte, raw text", loss(found.get("raw_bits_per_byte")), ABSENT],
        [
            "bits per byte, normalised text",
            loss(found.get("bits_per_byte")),
            _ends(found.get("bits_per_byte_interval"), loss),
        ],
        ["nats per token", loss(found.get("nats_per_token")), ABSENT],
        *(
            [name, figure((samples.get(key) or {}).get("value")), _ends(samples.get(key))]
            for key, name in _SAMPLES.items()
        ),
        ["perplexity on held-out", figure(train.get("held_out_perplexity")), ABSENT],
    ]
    known = [row for row in rows if row[1] != ABSENT]
    beside = {
        name: [figure(row.get("perplexity")), loss(row.get("nats_per_token"))]
        for name, row in baseline_rows(run)
    }
    protocol, resamples = found.get("protocol"), count(run.param("evaluate", "bootstrap"))
    intervals = any(row[2] != ABSENT for row in known)
    return (
        table("With 95 % intervals", ["metric", "value", "interval"], known)
        + paragraph(
            f"Intervals: {resamples} bootstrap resamples of the evaluation stories."
            if intervals
            else "",
            f"Protocol: {visible(protocol)}.".replace("..", ".") if protocol else "",
        )
        + (
            record_table(
                "Beside the baselines", "predictor", beside, ["perplexity", "nats per token"]
            )
            if found
            else []
        )
    )


def _ends(value: object, formatter: Callable[[float], str] = figure) -> str:
    ends = interval(value)
    return f"{formatter(ends[0])} to {formatter(ends[1])}" if ends else ABSENT


def sample(run: Run) -> Blocks:
    """The first evaluation story, continued by the trained model."""
    rows = run.rows("samples")
    if not rows:
        return []
    prompt = visible(rows[0].get("prompt", ""))
    when = f"after “{prompt}”; the first evaluation story, not a chosen one"
    return [Quotes([(when, str(rows[0].get("continuation", "")))])]


def limits(run: Run, lacks: tuple[str, ...]) -> Blocks:
    """What the model is not for, and what its figures do not say."""
    context, size = count(run.param("model", "context")), count(run.get("vocab", "size"))
    unknown = as_number(run.get("vocab", "unknown_share", "evaluation"))
    closed = run.param("vocab", "tokenizer") == "words"
    story = (
        "a small world that a program made up"
        if run.param("data", "source") == "storybook"
        else "its text"
    )
    return bullets(
        line
        for line in (
            f"It is a laboratory's model of {big(run.get('train', 'parameters'))} parameters, trained on "
            f"{big(run.get('train', 'tokens'))} tokens, made to study how language models work. It knows {story} and "
            "nothing else; what it says is made up, and nobody filtered it.",
            f"It reads at most {context} tokens: prompt and new tokens together must fit, since generate() does not "
            "move the window along the text as tinylm does.",
            f"Its vocabulary is closed: {size} ids, and every other word becomes <unk>"
            + ("." if unknown is None else f" ({share(unknown)} of evaluation's words).")
            if closed
            else "",
            "Upper case and punctuation are gone before it reads a text; it writes none."
            if closed
            and run.param("vocab", "lower_case") is True
            and run.param("vocab", "punctuation") == "drop"
            else "",
            "Perplexities compare only on the same text with the same tokenizer and protocol; bits per byte of the "
            "raw text compare any models of the same text, those of the normalised text only where it is the same.",
            "The intervals say how much the evaluation stories vary; another seed of training gives another model.",
            "Evaluation is the held-out end of the token stream here, on which training made its choices."
            if run.evaluates_held_out()
            else "",
            *(f"generate() does not know {line}." for line in lacks),
        )
        if line
    )


def origin_text(publication: Publication) -> Blocks:
    """Commit, DVC's hash of the weights, and how to make them again."""
    origin = publication.origin
    commit = (origin.commit or "").rstrip("+")
    edited = commit and commit != origin.commit
    again = bool(commit) and not edited and not origin.uncommitted
    return bullets(
        line
        for line in (
            f"Code: commit {commit} of the repository that trained it"
            + (", edited since." if edited else ".")
            if commit
            else "Code: under no version control.",
            f"DVC: output models of stage train, MD5 {origin.models_md5}. In the folder pipeline, dvc.lock has the "
            "hash of every file that it was made from, params.yaml every parameter, metrics every figure.",
            f"Not committed: {', '.join(origin.uncommitted)}; the copies in the folder pipeline are what was used."
            if origin.uncommitted
            else "",
            f"To make it again, in a clone: “git checkout {commit}”, then “dvc repro”."
            if again
            else "",
            "The folder tinylm holds the weights byte by byte as they were trained: “tinylm generate --models FOLDER” "
            "reads a download of this repository."
            if publication.weights
            else "",
            "The whole run, with attention maps and benches: report/index.html, report/report.pdf."
            if publication.report
            else "",
        )
        if line
    )


OF_THE_MODEL = (
    "data",
    "vocab",
    "embedding",
    "model",
    "train",
    "decode",
    "evaluate",
)  # sections of params.yaml


def write_card(run: Run, publication: Publication, pictures: Files) -> str:
    """README.md as text; `pictures`: name in reporting.pictures -> (path in the repository, alt text)."""
    settings = dataclasses.replace(
        run, params={key: run.params[key] for key in OF_THE_MODEL if key in run.params}
    )
    sections: dict[str, Blocks] = {
        "Data": method_sections.data(run) + paragraph(_data_licence(publication.data)),
        "Model": method_sections.model(run),
        "Training": method_sections.training(run) + run_sections.curves(run),
        "Metrics": metrics(run)
        + joined(paragraph(f"Not here: {line}.") for line in publication.left_out),
        "Seeds": chance_sections.seeds(run),
        "Does it make sense?": sense_sections.sense(run)[:3],  # the figures by method
        "What does it know?": pair_sections.pairs(run),
        "Is it memorised?": chance_sections.memorised(run)[:3],  # the tables, not the texts
        "What it wrote": sample(run),
        "Limits": limits(run, publication.lacks),
        "Where it comes from": origin_text(publication),
        "Parameters": fold(
            "All that made it, as in params.yaml", run_sections.settings(settings)[1:]
        ),
    }
    summary: Blocks = [block for block in run_sections.summary(run) if isinstance(block, Paragraph)]
    parts = [
        f"---\n{_head(run, publication)}---\n",
        f"# {escape(publication.repo.rpartition('/')[2])}",
        to_markdown(summary, pictures),
        f"## How to use it\n\n{usage(run, publication)}" if "/" in publication.repo else "",
        *(
            f"## {title}\n\n{to_markdown(blocks, pictures)}"
            for title, blocks in sections.items()
            if blocks
        ),
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def _data_licence(data: DataLicence) -> str:
    stated = (
        f"Licence of the data: {data.name} ({data.said_by})"
        if data.name
        else "Its licence is not known here"
    )
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
        "raw_bits_per_byte": ("raw_bits_per_byte", "bits per byte of the raw text"),
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
    return [{"name": publication.repo.rpartition("/")[2], "results": [result]}]
