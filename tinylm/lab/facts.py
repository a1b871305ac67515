"""What the page shows of a model: its shape, how texts are decoded, what its run measured."""

from typing import Any

from tinylm.decoding.settings import DecodeSettings
from tinylm.model.transformer import TinyLM
from tinylm.report.sources import ReportData, as_number, records
from tinylm.report.wording import count, many, number
from tinylm.vocab.tokenizer import Tokenizer

NEW_TOKENS = 120  # default length of a continuation
OPENINGS = 6  # offered at most


def facts(
    model: TinyLM, tokenizer: Tokenizer, decode: DecodeSettings, run: ReportData | None, title: str
) -> dict[str, Any]:
    """Everything but the weights, the tokenizer, and what only beams and the cache need.

    run: the run that trained this model, None if it is unknown.
    """
    token = "word" if tokenizer.kind == "words" else "token"
    openings = _openings(run) if run else []
    return {
        "title": title,
        "about": _about(model, token, run),
        "token": token,
        "prompt": openings[0] if openings else "once upon a time",
        "openings": openings,
        "most": NEW_TOKENS,
        "rules": {
            "temperature": decode.temperature,
            "topK": decode.top_k,
            "topP": decode.top_p,
            "penalty": decode.repetition_penalty,
            "seed": decode.seed,
            "stop": True,
        },
        "heads": _heads(run) if run else {},
    }


def _about(model: TinyLM, token: str, run: ReportData | None) -> str:
    shape = model.settings
    size = sum(parameter.numel() for parameter in model.parameters())
    text = (
        f"{many(shape.layers, 'layer')} of {many(shape.heads, 'head')}, width {model.width}, "
        f"{count(size)} parameters, {count(model.vocab_size)} {token}s, "
        f"a context of {shape.context}: the model runs in this page."
    )
    perplexity = as_number(run.value("evaluate.perplexity")) if run else None
    if perplexity is None:
        return text
    return f"{text} On the evaluation stories its perplexity is {number(perplexity)}."


def _openings(run: ReportData) -> list[str]:
    """The reader's own prompts, otherwise first words of evaluation stories, all different."""
    prompts = run.param("report", "prompts")
    if prompts:
        return list(prompts)[:OPENINGS]
    openings: dict[str, str] = {}
    for sample in run.rows("samples"):
        openings.setdefault(sample["prompt"].split()[0], sample["prompt"])
    return list(openings.values())[:OPENINGS]


def _heads(run: ReportData) -> dict[str, Any]:
    """What the run measured of each head, by layer and head counted from 0."""
    measured: dict[str, Any] = {}
    for head in run.heads():
        effect = {"increase": head["loss_increase"], "low": head["low"], "high": head["high"]}
        effect = {name: value for name, value in effect.items() if value is not None}
        measured[f"{head['layer'] - 1}.{head['head'] - 1}"] = {"roles": [], **effect}
    for role in records(run.roles()):
        if role["claimed"]:
            fit = {"name": role["role"], "score": role["score"]}
            measured[f"{role['layer'] - 1}.{role['head'] - 1}"]["roles"].append(fit)
    return measured
