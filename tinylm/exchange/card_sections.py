"""The parts of a model card that the report does not have: use, metrics at a glance, limits, origin."""

from collections.abc import Callable

from tinylm.exchange.publication import Publication
from tinylm.reporting.blocks import Blocks, Quotes, bullets, paragraph, record_table, table
from tinylm.reporting.pictures import baseline_rows
from tinylm.reporting.sources import Run, as_number
from tinylm.reporting.wording import ABSENT, big, count, figure, interval, loss, share, visible

_SAMPLES = {
    "continuation_perplexity": "perplexity of its continuations",
    **{f"bleu{n}": f"BLEU-{n} of its continuations" for n in range(1, 5)},
}


def usage(run: Run, publication: Publication) -> str:
    """Four lines of Python that continue the prompt of training, after one that says whose code runs."""
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
    """Every figure of quality with its interval, then the baselines on the same targets."""
    train, found = run.mapping("train"), run.mapping("evaluate")
    samples = run.mapping("evaluate", "samples")
    rows = [
        ["perplexity on evaluation", figure(found.get("perplexity")), _ends(found.get("perplexity_interval"))],
        ["bits per byte", loss(found.get("bits_per_byte")), _ends(found.get("bits_per_byte_interval"), loss)],
        ["nats a token", loss(found.get("nats_per_token")), ABSENT],
        *(
            [name, figure((samples.get(key) or {}).get("value")), _ends(samples.get(key))]
            for key, name in _SAMPLES.items()
        ),
        ["perplexity on held-out", figure(train.get("held_out_perplexity")), ABSENT],
    ]
    known = [row for row in rows if row[1] != ABSENT]
    beside = {
        name: [figure(row.get("perplexity")), loss(row.get("nats_per_token"))] for name, row in baseline_rows(run)
    }
    protocol, resamples = found.get("protocol"), count(run.param("evaluate", "bootstrap"))
    intervals = any(row[2] != ABSENT for row in known)
    return (
        table("With 95 % intervals", ["metric", "value", "interval"], known)
        + paragraph(
            f"Intervals: {resamples} bootstrap resamples of the evaluation stories." if intervals else "",
            f"Protocol: {visible(protocol)}.".replace("..", ".") if protocol else "",
        )
        + (record_table("Beside the baselines", "predictor", beside, ["perplexity", "nats a token"]) if found else [])
    )


def _ends(value: object, formatter: Callable[[float], str] = figure) -> str:
    ends = interval(value)
    return f"{formatter(ends[0])} to {formatter(ends[1])}" if ends else ABSENT


def sample(run: Run) -> Blocks:
    """The last story that it wrote while it learned."""
    rows = run.rows("stories")
    if not rows:
        return []
    last, prompt = rows[-1], visible(run.param("train", "sample_prompt"))
    when = f"after “{prompt}”, {big(last.get('tokens'))} tokens into training; the last sample taken, not a chosen one"
    return [Quotes([(when, str(last.get("text", "")))])]


def limits(run: Run, lacks: tuple[str, ...]) -> Blocks:
    """What the model is not for, and what its figures do not say."""
    context, size = count(run.param("model", "context")), count(run.get("vocab", "size"))
    unknown = as_number(run.get("vocab", "unknown_share", "evaluation"))
    closed = run.param("vocab", "tokenizer") == "words"
    story = "a small world that a program made up" if run.param("data", "source") == "storybook" else "its text"
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
            if closed and run.param("vocab", "lower_case") is True and run.param("vocab", "punctuation") == "drop"
            else "",
            "Perplexities compare only on the same text with the same tokenizer and protocol; bits per byte compare "
            "tokenizers on the same normalised text.",
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
            f"Code: commit {commit} of the repository that trained it" + (", edited since." if edited else ".")
            if commit
            else "Code: under no version control.",
            f"DVC: output models of stage train, MD5 {origin.models_md5}. In the folder pipeline, dvc.lock has the "
            "hash of every file that it was made from, params.yaml every parameter, metrics every figure.",
            f"Not committed: {', '.join(origin.uncommitted)}; the copies in the folder pipeline are what was used."
            if origin.uncommitted
            else "",
            f"To make it again, in a clone: “git checkout {commit}”, then “dvc repro”." if again else "",
            "The folder tinylm holds the weights byte by byte as they were trained: “tinylm import”, given a download "
            "of this repository, puts them back into a pipeline.",
            "The whole run, with attention maps and benches: report/index.html, report/report.pdf."
            if publication.report
            else "",
        )
        if line
    )
