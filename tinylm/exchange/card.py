"""The model card: README.md of a published model, its text and figures from the files that the pipeline wrote.

The head follows https://huggingface.co/docs/hub/model-cards: language, licence, tags, and the results as `model-index`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tinylm.exchange.publication import Publication
from tinylm.report import render
from tinylm.report.document import template_values
from tinylm.report.sources import Run, as_number
from tinylm.report.wording import ABSENT, FORMATS, interval, loss, number

TEMPLATE = Path(__file__).with_name("card.md.j2")
Pictures = Mapping[str, tuple[str, str]]  # a picture's name: (path of the file, alt text)

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


def _metrics(run: Run) -> list[tuple[str, str, str]]:
    """Name, value and interval of every measure of quality that the run has."""
    train = run.tree("train")
    evaluate = run.tree("evaluate")
    rows = [
        (
            "perplexity on evaluation",
            number(evaluate.perplexity),
            _ends(evaluate.perplexity_interval),
        ),
        ("bits per byte, raw text", loss(evaluate.raw_bits_per_byte), ABSENT),
        (
            "bits per byte, normalised text",
            loss(evaluate.bits_per_byte),
            _ends(evaluate.bits_per_byte_interval, loss),
        ),
        ("nats per token", loss(evaluate.nats_per_token), ABSENT),
        *(
            (name, number(evaluate.samples[key].value), _ends(evaluate.samples[key]))
            for key, name in _SAMPLES.items()
        ),
        ("perplexity on held-out", number(train.held_out_perplexity), ABSENT),
    ]
    return [row for row in rows if row[1] != ABSENT]


def _ends(value: object, formatted: Callable[[float], str] = number) -> str:
    ends = interval(value)
    return f"{formatted(ends[0])} to {formatted(ends[1])}" if ends else ABSENT


def write_card(run: Run, publication: Publication, pictures: Pictures) -> str:
    """README.md as text; `pictures`: name in report.pictures -> (path in the repository, alt text)."""

    def picture(name: str, caption: str) -> Markup:
        if name not in pictures:
            return Markup("")
        return render.image(*pictures[name], caption)

    text = render.render(
        TEMPLATE,
        FORMATS,
        **template_values(run),
        name=publication.repo.rpartition("/")[2],
        publication=publication,
        usage=Markup(usage(run, publication)) if "/" in publication.repo else "",
        metrics=_metrics(run),
        picture=picture,
        missing=lambda *names: "",
    )
    return f"---\n{_head(run, publication)}---\n\n{text}"


def _head(run: Run, publication: Publication) -> str:
    """The YAML that the hub reads."""
    from huggingface_hub import ModelCardData

    source, hub_id = run.param("data", "source"), run.param("data", "hub_id")
    is_english = source == "storybook" or (source == "hub" and hub_id == "roneneldan/TinyStories")
    tags = ["tinylm", "small-language-model", "dvc"]
    if publication.format == "tinylm":
        tags.append("custom_code")
    results = _results(run, publication)
    head = ModelCardData(
        language=["en"] if is_english else None,
        license=publication.licence,
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=tags,
        datasets=[hub_id] if source == "hub" else None,
        model_name=publication.repo.rpartition("/")[2] if results else None,
        eval_results=results or None,
    )
    return f"{head.to_yaml()}\n"


def _results(run: Run, publication: Publication) -> list[Any]:
    """The metrics of stage evaluate, as huggingface_hub's EvalResult."""
    from huggingface_hub import EvalResult

    names = {
        "perplexity": "perplexity on the evaluation split",
        "raw_bits_per_byte": "bits per byte of the raw text",
        "bits_per_byte": "bits per byte of the normalised text",
    }
    is_hub = run.param("data", "source") == "hub"
    dataset = str(run.param("data", "hub_id" if is_hub else "source"))
    results = []
    for metric, name in names.items():
        value = as_number(run.get("evaluate", metric))
        if value is not None:
            result = EvalResult(
                task_type="text-generation",
                dataset_type=dataset,
                dataset_name=publication.data.data,
                dataset_split="evaluation",
                metric_type=metric,
                metric_value=value,
                metric_name=name,
            )
            results.append(result)
    return results
