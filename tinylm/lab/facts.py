"""What the page shows of a model: its shape, how texts are decoded, what its run measured."""

from typing import Any

from tinylm.decoding.settings import DecodeSettings
from tinylm.model.transformer import TinyLM
from tinylm.report.heads import heads, roles
from tinylm.report.sources import Run, as_number, records
from tinylm.report.wording import count, many, number
from tinylm.vocab.tokenizer import Tokenizer

NEW_TOKENS = 120  # that a story goes on for, unless the reader says otherwise
MEASURED = (
    "Measured over many stories: a head's roles, with the share of its weight that goes there (article-noun: from the "
    "noun back to its article), and by how many nats per {token} the loss rises with the head switched off. In a "
    "single text a head may do something else."
)
NOT_MEASURED = (
    "What the heads do was not measured for this model: stage evaluate of a run does that."
)
SINK = " Weight on <sos>, the sign of the beginning, often means that a head found nothing to look at (Xiao et al. 2024)."


def facts(
    model: TinyLM, tokenizer: Tokenizer, decode: DecodeSettings, run: Run | None, title: str
) -> dict[str, Any]:
    """Everything but the weights and the tokenizer. run: the run that trained this model, if it is known."""
    token = "word" if tokenizer.kind == "words" else "token"
    measured_heads = _heads(run) if run else {}
    prompt = run.param("train", "sample_prompt") if run else None
    return {
        "title": title,
        "about": _about(model, token, run),
        "token": token,
        "prompt": prompt if isinstance(prompt, str) else "once upon a time",
        "most": NEW_TOKENS,
        "slide": decode.slide,
        "length_penalty": decode.length_penalty,
        "rules": {
            "temperature": decode.temperature,
            "topK": decode.top_k,
            "topP": decode.top_p,
            "penalty": decode.repetition_penalty,
            "seed": decode.seed,
            "stop": True,
        },
        "heads": measured_heads,
        "heads_note": (MEASURED.format(token=token) if measured_heads else NOT_MEASURED)
        + (SINK if tokenizer.sos_id is not None else ""),
        "head": _first_shown(run) if run else [0, 0],
        "perplexity": as_number(run.tree("evaluate").perplexity) if run else None,
    }


def _about(model: TinyLM, token: str, run: Run | None) -> str:
    shape = model.settings
    size = sum(parameter.numel() for parameter in model.parameters())
    text = (
        f"{many(shape.layers, 'layer')} of {many(shape.heads, 'head')}, width {model.width}, {count(size)} parameters, "
        f"{count(model.vocab_size)} {token}s, a context of {shape.context}: the model runs in this page."
    )
    perplexity = as_number(run.tree("evaluate").perplexity) if run else None
    if run is None or perplexity is None:
        return text
    text += f" On the evaluation stories its perplexity is {number(perplexity)}"
    ours = as_number(run.scored_once().get("perplexity"))
    counted = as_number(run.tree("evaluate").baselines.kneser_ney.perplexity)
    if counted is None or ours is None:
        return f"{text}."
    verdict = "; it has learnt less than these, so expect little" if ours >= counted else ""
    return f"{text}, that of n-grams (Kneser-Ney) {number(counted)}{verdict}."


def _heads(run: Run) -> dict[str, Any]:
    """What the run measured of each head, by layer and head counted from 0."""
    measured: dict[str, Any] = {}
    for head in records(heads(run)):
        effect = {"increase": head["loss_increase"], "low": head["low"], "high": head["high"]}
        effect = {name: value for name, value in effect.items() if value is not None}
        measured[f"{head['layer'] - 1}.{head['head'] - 1}"] = {"roles": [], **effect}
    for role in records(roles(run)):
        if role["claimed"]:
            fit = {"name": role["role"], "score": role["score"], "even": role["baseline"]}
            measured[f"{role['layer'] - 1}.{role['head'] - 1}"]["roles"].append(fit)
    return measured


def _first_shown(run: Run) -> list[int]:
    """The head that the page opens with, as layer and head from 0: the one whose role stands out most."""
    for role in records(roles(run)):
        if role["claimed"]:
            return [role["layer"] - 1, role["head"] - 1]
    return [0, 0]
