"""From the folder of a trained model to its page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.config import read_section
from tinylm.base.files import write_bytes
from tinylm.bench.settings import length_penalty
from tinylm.decoding.settings import CacheSettings, DecodeSettings
from tinylm.evaluate.truth import problem_with, read_words, true_tokens
from tinylm.lab.build import build_page, rule_of
from tinylm.model.checkpoint import check_vocabulary, load_checkpoints, load_model
from tinylm.model.transformer import TinyLM
from tinylm.report.drawing import optional
from tinylm.report.settings import ReportSettings
from tinylm.report.values import title_of, world_of_run
from tinylm.report.wording import count, many, number, share
from tinylm.run.finished_run import FinishedRun, records
from tinylm.run.trained import Trained
from tinylm.storybook.world import World
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.tokenizer import Tokenizer

LINKS = {  # for those who were sent the page; OWNER stands there as in README
    "tinylm, the project": "https://github.com/OWNER/tinylm",
    "its pages": "https://OWNER.github.io/tinylm",
}
NEW_TOKENS = 120  # default length of a continuation
OPENINGS = 6  # offered at most
SAMPLES = 3  # whole sample stories, offered if the generator of their corpus is known


def write_lab(run: FinishedRun, params: dict[str, Any], folder: str | Path) -> bool:
    """Write report/lab.html below `folder`.

    If that fails, for example since a page cannot hold the model, prints why and returns False.
    """
    root = Path(folder)
    (root / paths.REPORT_LAB).unlink(missing_ok=True)
    with optional(paths.REPORT_LAB):
        links = {"the report of this run": Path(paths.REPORT_PAGE).name, **LINKS}
        page = make_page(root / paths.MODELS, root / paths.TOKENIZER, params, run, links)
        write_bytes(root / paths.REPORT_LAB, page)
        return True
    return False


def make_page(
    models: str | Path,
    vocab: str | Path,
    params: dict[str, Any],
    run: FinishedRun | None,
    links: Mapping[str, str] = LINKS,
) -> bytes:
    """The page of a model folder and its tokenizer.json.

    run: what the model's run measured, and its title; None without a run.
    links: text and target of those at the top of the page.
    Raises InputError naming the file.
    """
    model, _ = load_model(models)
    check_vocabulary(models, vocab)
    tokenizer = open_tokenizer(vocab)
    title = Path(models).resolve().name
    if run:
        title = title_of(run, read_section(params, "report", ReportSettings))
    trained = run.train if run else None
    decode = read_section(params, "decode", DecodeSettings)
    slide = read_section(params, "cache", CacheSettings).slide
    shown = facts(model, tokenizer, decode, run, title)
    shown |= {"slide": slide, "length_penalty": length_penalty(params), "links": dict(links)}
    kept = list(load_checkpoints(models))
    checkpoints = [(_when(epoch, trained), at) for epoch, at in kept]
    earlier, name = len(kept), "the trained model"
    saved = trained.saved_epochs if trained else None
    if trained and saved is not None and saved < trained.epochs:
        earlier = sum(epoch <= saved for epoch, _ in kept)
        name += f", {_when(saved, trained)}"
    return build_page(model, rule_of(tokenizer, vocab), shown, checkpoints, earlier, name)


def _when(epochs: float, trained: Trained | None) -> str:
    """As in "after 16 % of the training"; in epochs if nobody knows how long it was."""
    if trained is None:
        return f"after {epochs:g} epochs"
    return f"after {share(min(epochs / trained.epochs, 1.0), 0)} of the training"


def facts(
    model: TinyLM, tokenizer: Tokenizer, decode: DecodeSettings, run: FinishedRun | None, title: str
) -> dict[str, Any]:
    """What the page shows: the model's shape, how texts are decoded, what the run measured.

    run: the run that trained this model, None if it is unknown.
    """
    token = "word" if tokenizer.kind == "words" else "token"
    openings = _openings(run) if run else []
    samples: list[str] = []
    truths: list[dict[str, Any]] = []
    world = world_of_run(run) if run else None
    if run and world and not problem_with(tokenizer, world):
        if run.param("evaluate", "prompts") == "starts":  # else samples begin within a story
            rows = run.tables.rows("samples")[:SAMPLES]
            samples = [f"{row['prompt']} {row['continuation']}" for row in rows]
        are_starts = samples or run.param("report", "prompts")  # else from within stories
        texts = [*openings, *samples] if are_starts else []
        truths = [_truth(tokenizer, text, world) for text in texts]
    return {
        "title": title,
        "about": _about(model, token, run),
        "token": token,
        "prompt": openings[0] if openings else "once upon a time",
        "openings": openings,
        "samples": samples,
        "truths": truths,
        "most": NEW_TOKENS,
        "rules": decoding_rules(decode) | {"seed": decode.seed, "stop": True},
        "heads": _heads(run) if run else {},
    }


def decoding_rules(decode: DecodeSettings) -> dict[str, Any]:
    """The settings that decide a token, except the seed, under the page's names."""
    return {
        "temperature": decode.temperature,
        "topK": decode.top_k,
        "topP": decode.top_p,
        "minP": decode.min_p,
        "eta": decode.eta,
        "fallback": decode.fallback_mass,
        "penalty": decode.repetition_penalty,
        "window": decode.repetition_window,
    }


def _truth(tokenizer: Tokenizer, text: str, world: World) -> dict[str, Any]:
    """What the generator expects at each word of a text and after it, as page/truth.js reads it.

    It ends at the first word that the generator could not have written.
    """
    positions = read_words(tokenizer.split(text), world)
    following: list[dict[int, float]] = [{} for _ in positions]
    for position, index, prob in zip(*true_tokens(tokenizer, positions), strict=True):
        following[position][int(index)] = float(f"{prob:.3g}")
    return {"ids": tokenizer.encode(text), "next": following}


def _about(model: TinyLM, token: str, run: FinishedRun | None) -> str:
    shape = model.settings
    size = sum(parameter.numel() for parameter in model.parameters())
    text = (
        f"{many(shape.layers, 'layer')} of {many(shape.heads, 'head')}, width {model.width}, "
        f"{count(size)} parameters, {count(model.vocab_size)} {token}s, "
        f"a context of {shape.context}: the model runs in this page."
    )
    perplexity = run.evaluate.perplexity if run and run.evaluate else None
    if perplexity is None:
        return text
    return f"{text} On the evaluation stories its perplexity is {number(perplexity)}."


def _openings(run: FinishedRun) -> list[str]:
    """The reader's own prompts, otherwise first words of evaluation stories, all different."""
    prompts = run.param("report", "prompts")
    if prompts:
        return list(dict.fromkeys(prompts))[:OPENINGS]
    openings: dict[str, str] = {}
    for sample in run.tables.rows("samples"):
        words = sample["prompt"].split()
        if words:  # a prompt of <sos> alone has none
            openings.setdefault(words[0], sample["prompt"])
    return list(openings.values())[:OPENINGS]


def _heads(run: FinishedRun) -> dict[str, Any]:
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
