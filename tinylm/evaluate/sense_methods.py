"""How far each way to continue the evaluation prompts makes sense, and how that grew in training."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tinylm.base.seeding import derive_seed
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.evaluate.continuations import EvaluateSettings, never_generated
from tinylm.evaluate.ngram import KneserNey
from tinylm.evaluate.sense import Graded, grade, sense
from tinylm.kernels.decoding.decoder import decoder_of
from tinylm.model.transformer import TinyLM
from tinylm.storybook.corpus import normalise
from tinylm.storybook.sense import MEANING
from tinylm.vocab.prompts import Prompt
from tinylm.vocab.tokenizer import Tokenizer

PROTOCOL = (
    "A continuation is read up to its first impossible word: one that no story of the generator has after the words "
    "before it. A text whose prompt is impossible already is left out."
)
TEMPERATURES = (0.5, 1.0, 1.5)  # at which the model's own distribution is sampled, without filters


def judge_methods(
    model: TinyLM,
    tokenizer: Tokenizer,
    prompts: Sequence[Prompt],
    rows: Sequence[Mapping[str, Any]],
    ngrams: KneserNey,
    settings: EvaluateSettings,
    decode: DecodeSettings,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(figures of each method with the protocol, `rows_of` all): how far each way to continue the prompts makes sense.

    rows: those of `continue_stories`, which are methods "decode" (section decode) and "references" (the stories' own
    continuations, of which all are possible). Further: greedy decoding, the model's own distribution at several
    temperatures, and the n-gram baseline's own distribution.
    """
    banned = never_generated(tokenizer, settings.stop_at_eos)
    found = {
        "references": [(row["prompt"], row["reference"], False) for row in rows],
        "decode": [(row["prompt"], row["continuation"], row["finished"]) for row in rows],
    }
    sooner = dataclasses.replace(decode, step="auto")
    plain = dataclasses.replace(
        sooner, temperature_end=None, top_k=0, top_p=1.0, fallback_mass=0.0, repetition_penalty=1.0
    )
    ways = {"greedy": sooner.greedy()}
    ways |= {
        f"temperature {value:g}": dataclasses.replace(plain, temperature=value)
        for value in TEMPERATURES
    }
    for name, way in ways.items():
        texts = generate(
            model,
            [prompt.ids for prompt in prompts],
            way,
            max_new_tokens=settings.new_tokens,
            eos_id=tokenizer.eos_id,
            banned=banned,
            decoder=decoder_of(model, way),
        )
        found[name] = [
            (row["prompt"], tokenizer.decode(text.ids), text.finished)
            for row, text in zip(rows, texts, strict=True)
        ]
    found["kneser_ney"] = sample_ngrams(
        ngrams, prompts, tokenizer, banned, settings.new_tokens, settings.seed
    )
    graded = {name: grade(texts) for name, texts in found.items()}
    figures = {
        name: sense(texts, settings.bootstrap, settings.seed) for name, texts in graded.items()
    }
    return {"protocol": PROTOCOL, "kinds": MEANING, "methods": figures}, [
        row for name in graded for row in rows_of(name, graded[name])
    ]


def rows_of(method: str, graded: Iterable[Graded]) -> list[dict[str, Any]]:
    """A row for each text with an impossible word: the words before it, itself, its kind, what could stand there."""
    return [
        {
            "method": method,
            "story": " ".join(text.words[: text.verdict.words]),
            "word": text.verdict.word or "<eos>",
            "kind": text.verdict.kind,
            "instead": ", ".join(word or "<eos>" for word in text.verdict.expected),
        }
        for text in graded
        if text.verdict.kind
    ]


def over_training(
    samples: Iterable[Mapping[str, Any]], resamples: int, seed: int
) -> list[dict[str, Any]]:
    """The figures of the texts that stage train wrote at each of its samples, with update and tokens."""
    found = []
    for sample in samples:
        prompt, texts = sample["prompt"], [sample["text"], *sample["others"]]
        start = len(normalise(prompt).split())
        rests = [" ".join(normalise(text).split()[start:]) for text in texts]
        graded = grade((prompt, rest, False) for rest in rests)
        place = {key: sample[key] for key in ("update", "tokens")}
        found.append(place | sense(graded, resamples, seed))
    return found


def sample_ngrams(
    ngrams: KneserNey,
    prompts: Sequence[Prompt],
    tokenizer: Tokenizer,
    banned: Sequence[int],
    new_tokens: int,
    seed: int,
) -> list[tuple[str, str, bool]]:
    """Each prompt continued by draws from an n-gram model's own distribution, as (prompt, continuation, ended)."""
    texts = []
    for number, prompt in enumerate(prompts):
        rng = np.random.default_rng(derive_seed(seed, "n-grams", number))
        ids: list[int] = []
        while len(ids) < new_tokens and (not ids or ids[-1] != tokenizer.eos_id):
            probs = ngrams.next_probs([*prompt.ids, *ids])
            probs[list(banned)] = 0.0
            ids.append(int(rng.choice(len(probs), p=probs / probs.sum())))
        texts.append(
            (tokenizer.decode(prompt.ids), tokenizer.decode(ids), ids[-1] == tokenizer.eos_id)
        )
    return texts
