"""Small random models: their exports in every possible format, and what tinylm computes with each.

WORK/<number>-<name>/
    transformers/, tinylm/   exports; transformers/ only of models that become GPT-2 or GPT-NeoX
    model-F32.gguf           of models that become GPT-2
    card.json                what was drawn, see `card_of`
    expected.npz             what tinylm computes, see `expected_of`
"""

import dataclasses
import random
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.drawn.corpora import plant_vocabulary
from tests.drawn.drawing import DrawnRun
from tests.drawn.exports import drawn_shape, drawn_text, exported, spelled
from tests.drawn.models import plain_model, random_model, settings_of
from tests.drawn.rounding import BF16, F16, FP32, LARGEST, Q8_0, SHAKEN
from tinylm.base.files import sha256, write_json
from tinylm.decoding import filters
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import BeamSettings, DecodeSettings
from tinylm.decoding.texts import banned_ids
from tinylm.exchange.generation import generation_config
from tinylm.exchange.stock import REQUIRED
from tinylm.exchange.tokenizer_files import special_roles
from tinylm.model.checkpoint import save_model
from tinylm.model.transformer import TinyLM
from tinylm.run.trained_model import TrainedModel
from tinylm.storybook.corpus import generate as tell_stories
from tinylm.vocab.make_tokenizer import make_tokenizer
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.tokenizer import Tokenizer

# What a model becomes in transformers; --format transformers refuses "own". "blocks" is a GPT-2 of width 256, which
# llama.cpp quantises in whole blocks.
FORMS = ("blocks", "neox", "gpt2", "own")
TOKENIZERS = {
    "words": {"tokenizer": "words", "lower_case": True, "punctuation": "drop"},
    "bpe": {"tokenizer": "bpe", "lower_case": False, "max_size": 400},
    "words-marks": {"tokenizer": "words", "lower_case": False, "punctuation": "keep"},
    "gpt2": {"tokenizer": "gpt2"},
    "longest_match": {"tokenizer": "longest_match", "max_size": 300},
}
ROWS, PROMPT, NEW = 4, 6, 20  # tokens
BEAMS = 5
SPREAD = 2.5  # standard deviation of logits
# Half a unit in the last place, and how many times the error of one random change is allowed: a sum in float32 rounds
# after each term; the other types are summed in float32, too.
UNITS = {"float32": (FP32, 20.0), "bfloat16": (BF16, 4.0), "float16": (F16, 4.0)}
# What llama.cpp quantises to: half a step as a share of a number of ordinary size, which is a quarter of the largest
# of its block. 4 bits divide a block's range, twice the largest, into 15 steps.
QUANTISED = {"Q8_0": Q8_0, "Q4_K_M": 4 / 15}
DECODE = (
    {"temperature": 0.7},
    {"temperature": 1.3, "top_k": 7},
    {"temperature": 1.2, "top_p": 0.8},
    {"temperature": 1.0, "min_p": 0.1},
    {"temperature": 0.8, "top_k": 9, "top_p": 0.9, "min_p": 0.05},
    {"temperature": 1.5, "eta": 0.05},
)


def write_models(folder: Path, seed: int, count: int) -> None:
    """Draw `count` models and write each into a folder of its own below `folder`."""
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        form = FORMS[number % len(FORMS)]
        kind = list(TOKENIZERS)[number % len(TOKENIZERS)]
        with tempfile.TemporaryDirectory() as parts:
            texts = drawn_texts(rng)
            tokenizer = drawn_tokenizer(kind, texts[::2], Path(parts))
            trained = drawn_model(form, tokenizer, rng, Path(parts))
            write_model(folder / f"{number:02}-{form}-{kind}", trained, texts, rng)


def drawn_texts(rng: np.random.Generator) -> list[str]:
    """Stories of the storybook, and words and marks of many languages in any order."""
    chooser = random.Random(int(rng.integers(1 << 30)))
    stories = [story.text for story in islice(tell_stories(20, 0, 1)[0], 20)]
    return [*stories, *(drawn_text(chooser) for _ in range(40))]


def drawn_tokenizer(kind: str, texts: list[str], folder: Path) -> Tokenizer:
    """A tokenizer with a vocabulary of these texts, read back from its file."""
    settings = VocabSettings(**TOKENIZERS[kind], path=str(folder / "vocabulary"))
    plant_vocabulary(folder / "vocabulary", texts, 350, alphabet=True)
    tokenizer, _ = make_tokenizer(settings, lambda: texts)
    tokenizer.save(folder / "tokenizer.json")
    return open_tokenizer(folder / "tokenizer.json")


def drawn_model(
    form: str, tokenizer: Tokenizer, rng: np.random.Generator, folder: Path
) -> TrainedModel:
    """A model of this form with random weights, and how to decode with it, as if just trained."""
    drawn = DrawnRun(number=int(rng.integers(1000)))
    width, shape = drawn_width_and_settings(form, rng)
    model = random_model(settings_of(drawn, **shape), len(tokenizer), width, drawn.number)
    rows = torch.from_numpy(rng.integers(len(tokenizer), size=(ROWS, PROMPT)))
    with torch.no_grad():  # logits as different as those of a trained model
        model.final_norm.gain.mul_(SPREAD / model(rows).std(-1).mean())
    params = drawn.params()
    params["decode"] = {"seed": 1, **DECODE[rng.integers(len(DECODE))]}
    params["beam_bench"]["length_penalty"] = float(rng.choice([0.0, 0.6, 1.0]))
    vocab = folder / "tokenizer.json"
    save_model(folder / "models", model, tokenizer_sha256=sha256(vocab))
    decode = DecodeSettings(**params["decode"])
    return TrainedModel(folder / "models", vocab, model, tokenizer, decode, params)


def drawn_width_and_settings(form: str, rng: np.random.Generator) -> tuple[int, dict[str, Any]]:
    """The width of the embedding, and settings of section `model`, that this form allows."""
    width, shape = drawn_shape(rng)
    shape |= {
        "context": int(rng.integers(40, 65)),
        "dropout": 0.0,
        "activation": str(rng.choice(["gelu", "relu"])),
        "tied_output": bool(rng.integers(2)),
        "output_bias": bool(rng.integers(2)),
        "qkv_bias": bool(rng.integers(2)),
        "attention_bias": bool(rng.integers(2)),
        "norm_eps": float(rng.choice([1e-5, 1e-5, 1e-3])),
        "positions": str(rng.choice(["sinusoids", "learned", "none"])),
    }
    shape |= REQUIRED if form != "own" else {"norm": "post", "norm_kind": "layer"}
    if form == "neox":
        shape["positions"] = "rotary"
    if form == "blocks":
        width = 256
        shape |= {"heads": 4, "head_width": 64, "feed_forward": 512, "output_bias": False}
    if rng.random() < 0.5:
        # As wide as its heads together: the export needs no extra channels, and ties the output.
        width = shape["heads"] * shape["head_width"]
        shape |= {"output_bias": False, "tied_output": True}
    return width, shape


def write_model(
    folder: Path, trained: TrainedModel, texts: list[str], rng: np.random.Generator
) -> None:
    """The exports, card.json and expected.npz of one model."""
    folder.mkdir(parents=True)
    formats = [
        form for form in ("transformers", "tinylm") if exported(folder / form, trained, form)
    ]
    if exported(folder / "gguf", trained, "gguf"):
        (folder / "gguf/model.gguf").rename(folder / "model-F32.gguf")
        shutil.rmtree(folder / "gguf")
        formats.append("gguf")
    rows = drawn_rows(trained, rng)
    card = card_of(trained, formats, texts, rows)
    write_json(folder / "card.json", card)
    of_texts = text_log_probs(trained, [ids for _, ids, _ in card["texts"]])
    np.savez(folder / "expected.npz", **expected_of(trained, rows), text_log_probs=of_texts)


def drawn_rows(trained: TrainedModel, rng: np.random.Generator) -> torch.Tensor:
    """Ids of ordinary tokens after <sos>, if there is one.  (B, T)"""
    tokenizer = trained.tokenizer
    ordinary = sorted(set(range(len(tokenizer))) - set(tokenizer.specials))
    length = trained.model.settings.context - NEW
    rows = torch.from_numpy(rng.choice(ordinary, size=(ROWS, length)))
    if tokenizer.sos_id is not None:
        rows[:, 0] = tokenizer.sos_id
    return rows


def card_of(
    trained: TrainedModel, formats: list[str], texts: list[str], rows: torch.Tensor
) -> dict[str, Any]:
    """What was drawn.

    model: its settings. decode: section `decode`, which gives `probabilities` of expected.npz. tokens: the text of each
    id. roles: the ids of bos, eos and pad. banned: ids that are never generated. texts: [text, its ids without
    <sos>, the text that these decode to without <unk>]. rounding: how far logits may be from the exact ones if each
    operation rounds to float32, bfloat16 or float16; null if numbers leave the range of that type. quantised: the root
    of their mean square error, as a share of the logits' spread, if each weight and result errs by up to half a step of
    that type.
    """
    tokenizer = trained.tokenizer
    length_penalty = trained.params["beam_bench"]["length_penalty"]
    context = trained.model.settings.context
    return {
        "formats": formats,
        "model": dataclasses.asdict(trained.model.settings),
        "width": trained.model.width,
        "tokenizer": tokenizer.rule(),
        "tokens": list(tokenizer.tokens),
        "roles": special_roles(tokenizer),
        "banned": banned_ids(tokenizer),
        "decode": dataclasses.asdict(trained.decode),
        "generation": generation_config(tokenizer, trained.decode, context),
        "length_penalty": length_penalty,
        "new_tokens": NEW,
        "texts": list(encoded(tokenizer, texts)),
        "rounding": {name: rounding(trained.model, rows, *unit) for name, unit in UNITS.items()},
        "quantised": {
            name: quantised(trained.model, rows, unit) for name, unit in QUANTISED.items()
        },
    }


def encoded(tokenizer: Tokenizer, texts: list[str]) -> Iterator[tuple[str, list[int], str]]:
    """(text, ids, decoded text) of each text that the tokenizer can spell."""
    for text in texts:
        with warnings.catch_warnings(action="ignore"):
            # tinylm warns of characters that it leaves out.
            is_spelled = spelled(tokenizer, text) == text
        if tokenizer.kind == "longest_match" and not is_spelled:
            continue
        ids = tokenizer.encode(text)
        yield text, ids, tokenizer.decode([index for index in ids if index != tokenizer.unk_id])


def rounding(model: TinyLM, rows: torch.Tensor, unit: float, factor: float) -> float | None:
    """How far logits may be from the exact ones if each operation errs by `unit`, as in tests/drawn/rounding.py."""
    exact = plain_model(model)(rows)
    generator = torch.Generator().manual_seed(0)
    largest = 0.0
    for _ in range(SHAKEN):
        plain = plain_model(model)
        plain.shake(unit, generator, 1.0)
        largest = max(largest, float((plain(rows) - exact).abs().max()))
        if not plain.largest <= LARGEST[unit]:
            return None
    return factor * largest


def quantised(model: TinyLM, rows: torch.Tensor, unit: float) -> float:
    """The error of logits after random changes, as a share of their spread: root of the mean square."""
    exact = plain_model(model)(rows)
    plain = plain_model(model)
    plain.shake(unit, torch.Generator().manual_seed(0), 1.0)
    return float((plain(rows) - exact).square().mean().sqrt() / exact.std(-1).mean())


@torch.no_grad()
def expected_of(trained: TrainedModel, rows: torch.Tensor) -> dict[str, np.ndarray]:
    """What tinylm computes.

    rows (B, T) ids. logits (B, T, V) float32. log_probs (B,): of each row after its first token, in nats.
    prompts (B, P): the beginnings of the rows. greedy, beams (B, N): their continuations, up to and with <eos>, then -1;
    beams: the best of BEAMS beams with the card's length_penalty. scores (B,): log-probability of `beams` /
    length ** length_penalty. probabilities (B, V): those from which `decode` draws the token after each prompt.
    """
    tokenizer, model = trained.tokenizer, trained.model
    banned = banned_ids(tokenizer)
    decoder = Decoder(model=model, eos_id=tokenizer.eos_id, banned=banned)
    logits = model(rows)
    log_probs = logits[:, :-1].double().log_softmax(-1).gather(2, rows[:, 1:, None]).sum((1, 2))
    prompts = rows[:, :PROMPT]
    greedy = generate(decoder, prompts.tolist(), trained.decode.greedy(), max_new_tokens=NEW)
    settings = BeamSettings(
        width=BEAMS, length_penalty=trained.params["beam_bench"]["length_penalty"]
    )
    found = beam_search(decoder, prompts.tolist(), settings, max_new_tokens=NEW)
    best = [hypotheses[0] for hypotheses in found]
    allowed = filters.ban(logits[:, PROMPT - 1], banned)
    return {
        "rows": rows.numpy(),
        "logits": logits.numpy(),
        "log_probs": log_probs.numpy(),
        "prompts": prompts.numpy(),
        "greedy": padded([text.ids for text in greedy]),
        "beams": padded([hypothesis.ids for hypothesis in best]),
        "scores": np.array([hypothesis.score for hypothesis in best]),
        "probabilities": filters.probabilities(allowed, trained.decode).numpy(),
    }


def padded(rows: list[list[int]]) -> np.ndarray:
    """(B, NEW), -1 after the end of a row"""
    return np.array([row + [-1] * (NEW - len(row)) for row in rows])


@torch.no_grad()
def text_log_probs(trained: TrainedModel, texts: list[list[int]]) -> np.ndarray:
    """Log-probability of each token in nats, after <sos> or, without one, after the first token.

    Rows are filled up with nan; a text longer than the context has nothing else.  (texts, T - 1)
    """
    context, opening = trained.model.settings.context, trained.tokenizer.sos_id
    result = np.full((len(texts), context - 1), np.nan)
    for row, ids in zip(result, texts, strict=True):
        opened = torch.tensor(ids if opening is None else [opening, *ids])
        if 1 < len(opened) <= context:
            log_probs = trained.model(opened[None, :-1])[0].double().log_softmax(-1)
            row[: len(opened) - 1] = log_probs.gather(1, opened[1:, None])[:, 0]
    return result
