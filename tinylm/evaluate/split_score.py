"""Perplexity and bits per byte of the whole evaluation split, and of each of its stories."""

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tinylm.base.config import InputError
from tinylm.download.stories import read_stories
from tinylm.evaluate.bits_per_byte import Spelling, bits_per_byte
from tinylm.evaluate.scoring import perplexity
from tinylm.evaluate.settings import EvaluateSettings
from tinylm.evaluate.statistics import bootstrap_interval, pooled_perplexity
from tinylm.model.transformer import TinyLM
from tinylm.train.split_loss import target_losses
from tinylm.vocab.batches import scoring_batches, scoring_starts
from tinylm.vocab.token_store import TokenStore, coverage
from tinylm.vocab.tokenizer import Tokenizer

BATCH_ROWS = 32
HEADLINE = ("perplexity", "nats_per_token", "bits_per_byte", "raw_bits_per_byte")
PROTOCOL = {
    "stream": (
        "the split as one stream in non-overlapping windows of {context} tokens; <sos> and <eos> "
        "are scored; the interval resamples these windows"
    ),
    "stories": (
        "each story from its <sos>, in rows of at most {context} tokens; <eos> is scored, <sos> "
        "is given; the interval resamples these rows"
    ),
    "windows": (
        "every window of {context} tokens at stride 1, each of its tokens scored (bits per byte, "
        "and the perplexity compared with the baselines: windows that do not overlap); the "
        "interval resamples blocks of {context} windows"
    ),
}
_ID_DIGITS = 16


@dataclasses.dataclass(frozen=True)
class SplitScore:
    """Metrics of the split, as in data/figures/evaluate.json, and a row for each story."""

    metrics: dict[str, Any]
    stories: list[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class _Losses:
    """The losses of a split under one layout.

    rows (R, 2): nats and scored tokens of each row.
    nats (N,), times (N,): of each token of the stream, its loss summed over the rows that score
    it, and the number of those rows.
    """

    rows: np.ndarray
    nats: np.ndarray
    times: np.ndarray

    def by_story(self, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """nats (S,) and scored tokens (S,) of each story.

        offsets (S + 1,) are the stories' starts in the stream, then N; a story may be empty.
        """
        stories = len(offsets) - 1
        story = np.repeat(np.arange(stories), np.diff(offsets))
        nats = np.bincount(story, weights=self.nats, minlength=stories)
        times = np.bincount(story, weights=self.times, minlength=stories)
        return nats, times.astype(np.int64)


def score_split(
    model: TinyLM,
    tokenizer: Tokenizer,
    store: TokenStore,
    layout: str,
    stories: str | Path,
    settings: EvaluateSettings,
) -> SplitScore:
    """Perplexity with its 95 % bootstrap interval, nats per token, bits per byte, unknown words.

    bits_per_byte: over the bytes of the normalised text, with unknown words spelt. None if the
    text has no bytes, or if its unknown words are lost.
    raw_bits_per_byte: over every byte of the stories as stage download wrote them. None unless the
    tokenizer is lossless, and where the split has no stories of its own.
    once: only for layout "windows", which scores a token in each window that contains it. Holds
    the metrics of layout "stream", which scores exactly the targets of the baselines, each once.
    """
    context = model.settings.context
    losses = _losses(model, store, layout, tokenizer.pad_id)
    once = losses
    rows = losses.rows
    if layout == "windows":  # neighbouring windows score the same tokens
        once = _losses(model, store, "stream", tokenizer.pad_id)
        rows = np.add.reduceat(rows, np.arange(0, len(rows), context))
    texts = _story_texts(tokenizer, store, stories)
    n_bytes = sum(texts.n_bytes)
    unknown = [word for words in texts.unknown for word in words]
    covered = coverage(store, tokenizer.unk_id, tokenizer.specials - {tokenizer.unk_id})
    spelling = None
    bits = None
    if n_bytes and len(unknown) == covered["unknown"]:
        spelling = _spelling(tokenizer, unknown)
        bits = bits_per_byte(float(once.rows[:, 0].sum()), unknown, n_bytes, spelling)
    metrics = {
        **_metrics(rows, settings),
        "bits_per_byte": bits,
        "bytes": n_bytes,
        "unknown_share": covered["unknown_share"],
        "protocol": PROTOCOL[layout].format(context=context),
    }
    if layout == "windows":
        metrics["once"] = _metrics(once.rows, settings)
    metrics["raw_bits_per_byte"] = bits if texts.is_raw else None
    metrics["raw_bytes"] = sum(texts.raw_bytes)
    nats_once, _ = once.by_story(store.offsets)
    by_story = losses.by_story(store.offsets)
    return SplitScore(metrics, _story_rows(tokenizer, store, texts, by_story, nats_once, spelling))


def headline(metrics: dict[str, Any]) -> dict[str, Any]:
    """The metrics of a split that are compared between seeds."""
    return {name: metrics[name] for name in HEADLINE}


def _losses(model: TinyLM, store: TokenStore, layout: str, pad_id: int) -> _Losses:
    """The split scored by a layout, every row of it."""
    context = model.settings.context
    starts = scoring_starts(store, layout, context)
    rows = []
    nats = np.zeros(len(store.ids))
    times = np.zeros(len(store.ids), dtype=np.int64)
    first = 0
    batches = scoring_batches(store, layout, BATCH_ROWS, context, pad_id)
    for batch, losses in target_losses(model, batches):
        values = losses.double().cpu().numpy()  # (B, T)
        scored = batch.targets.numpy() >= 0
        offsets = starts[first : first + len(values), None] + 1 + np.arange(values.shape[1])
        np.add.at(nats, offsets[scored], values[scored])
        np.add.at(times, offsets[scored], 1)
        row_nats = losses.sum(1, dtype=torch.float64).cpu().numpy()
        rows.append(np.stack([row_nats, scored.sum(1)], axis=1))
        first += len(values)
    return _Losses(np.concatenate(rows), nats, times)


def _metrics(rows: np.ndarray, settings: EvaluateSettings) -> dict[str, Any]:
    """Perplexity, its interval, nats per token and tokens of rows (R, 2) of nats and tokens."""
    nats = float(rows[:, 0].sum())
    tokens = int(rows[:, 1].sum())
    interval = bootstrap_interval(rows, pooled_perplexity, settings.bootstrap, settings.seed)
    return {
        "perplexity": perplexity(nats, tokens),
        "perplexity_interval": list(interval),
        "nats_per_token": nats / tokens,
        "tokens": tokens,
    }


def _spelling(tokenizer: Tokenizer, unknown: Sequence[str]) -> Spelling:
    """The spelling of unknown words, learnt from the vocabulary's own; of none if none is needed."""
    words = [tokenizer.word_of(index) for index in range(len(tokenizer) if unknown else 0)]
    return Spelling(word for word in words if word)


@dataclasses.dataclass(frozen=True)
class _StoryTexts:
    """Of each story: a name for its text, bytes of the normalised and raw text, unknown words.

    is_raw: the tokens hold every byte of the raw texts.
    """

    ids: Sequence[str]
    n_bytes: Sequence[int]
    raw_bytes: Sequence[int]
    unknown: Sequence[Sequence[str]]
    is_raw: bool


def _story_texts(tokenizer: Tokenizer, store: TokenStore, stories: str | Path) -> _StoryTexts:
    """The texts of a token store of the evaluation split.

    If the split has no stories of its own, since it is a part of the training stream, its ids are
    decoded; unknown words are then lost. Raises InputError if the stories are not the store's.
    """
    texts = [row["text"] for row in read_stories(stories, "evaluation")]
    own_stories = bool(texts)
    if not own_stories:
        texts = [tokenizer.decode(store.story(index).tolist()) for index in range(len(store))]
    if len(texts) != len(store):
        counts = f"{len(texts)} evaluation stories, {len(store)} of them in tokens"
        raise InputError(f"{stories}: {counts}; run dvc repro")
    normalised = [tokenizer.normalise(text) for text in texts]
    raw_bytes = [0] * len(texts)
    unknown: list[list[str]] = [[] for _ in texts]
    if own_stories:
        raw_bytes = [len(text.encode()) for text in texts]
        unknown = [tokenizer.unknown_words(text) for text in texts]
    return _StoryTexts(
        ids=[_digest([text]) for text in texts],
        n_bytes=[len(text.encode()) for text in normalised],
        raw_bytes=raw_bytes,
        unknown=unknown,
        is_raw=own_stories and tokenizer.lossless and normalised == texts,
    )


def _story_rows(
    tokenizer: Tokenizer,
    store: TokenStore,
    texts: _StoryTexts,
    by_story: tuple[np.ndarray, np.ndarray],
    nats_once: np.ndarray,
    spelling: Spelling | None,
) -> list[dict[str, Any]]:
    """One row per story, numbered from 0.

    text_id, tokens_id: equal for equal texts, and for equal tokens of equal vocabularies.
    nats, tokens: sums over its scored tokens by the protocol of the perplexity.
    bits, bytes: of the normalised text, each token scored once, unknown words spelt; NaN without
    a `spelling`.
    raw_bits, raw_bytes: of the raw text; NaN where the tokens do not hold all of it.
    """
    nats, tokens = by_story
    vocabulary = _digest(sorted(tokenizer.tokens))
    rows = []
    for index, text_id in enumerate(texts.ids):
        shown = [tokenizer.tokens[token] for token in store.story(index).tolist()]
        bits = math.nan
        if spelling:
            spelt = sum(map(spelling.nats, texts.unknown[index]))
            bits = (float(nats_once[index]) + spelt) / math.log(2)
        row = {
            "story": index,
            "text_id": text_id,
            "tokens_id": _digest([vocabulary, *shown]),
            "nats": float(nats[index]),
            "tokens": int(tokens[index]),
            "bits": bits,
            "bytes": texts.n_bytes[index],
            "raw_bits": bits if texts.is_raw else math.nan,
            "raw_bytes": texts.raw_bytes[index],
        }
        rows.append(row)
    return rows


def _digest(parts: Sequence[str]) -> str:
    """A name for a sequence of texts, equal for equal ones."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode(errors="surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()[:_ID_DIGITS]
