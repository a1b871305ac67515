"""Perplexity and bits per byte of the whole evaluation split, and of each of its stories."""

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from tinylm.base.config import InputError
from tinylm.download.stories import read_texts
from tinylm.evaluate.scoring import perplexity
from tinylm.evaluate.settings import RESAMPLES, SEED, Metrics
from tinylm.evaluate.statistics import (
    MIN_TEXTS,
    bootstrap_interval,
    merge_repeats,
    pooled_perplexity,
)
from tinylm.model.transformer import TinyLM
from tinylm.train.validation import target_losses
from tinylm.vocab.batches import scoring_batches, scoring_starts
from tinylm.vocab.token_store import TokenStore, coverage
from tinylm.vocab.tokenizer import Tokenizer

BATCH_ROWS = 32
HEADLINE = ("perplexity", "nats_per_token", "raw_bits_per_byte")
PROTOCOL = {
    "stream": "the stream in separate windows of {context} tokens; <sos> and <eos> are scored",
    "stories": "each story from its <sos>, in rows of at most {context} tokens; <eos> is scored",
    "windows": (
        "every window of {context} tokens at stride 1, each of its tokens scored (bits per byte, "
        "and the perplexity compared with the baselines: windows that do not overlap)"
    ),
}
_ID_DIGITS = 16


class SplitScore(NamedTuple):
    """What `score_split` measures.

    metrics: as in data/figures/evaluate.json.
    table: a row for each story, as in data/evaluate/stories.csv.
    once (S, 2): nats and tokens of each story, each token scored once. Only in layout "windows" do
    they differ from the table's.
    """

    metrics: Metrics
    table: pd.DataFrame
    once: np.ndarray


@dataclasses.dataclass(frozen=True)
class _Losses:
    """The losses of a split under one layout, in nats.

    rows (R, 2): nats and scored tokens of each row.
    stories (S, 2): of each story the same, summed over the rows that score its tokens.
    """

    rows: np.ndarray
    stories: np.ndarray


@dataclasses.dataclass(frozen=True)
class _Stories:
    """The stories' texts.

    raw_bytes: of each, as stage download wrote it. 0 where the split has no stories of its own but
    is a part of the training stream; its ids are decoded then.
    is_lossless: whether the tokens hold every byte of the raw texts.
    """

    texts: list[str]
    raw_bytes: list[int]
    is_lossless: bool


def score_split(
    model: TinyLM,
    tokenizer: Tokenizer,
    store: TokenStore,
    layout: str,
    stories: str | Path,
) -> SplitScore:
    """Score the evaluation split.

    Metrics: perplexity with its 95 % bootstrap interval over different texts, nats per token, bits
    per byte, share of unknown words, and how many stories repeat another one.
    raw_bits_per_byte: over every byte of the stories as stage download wrote them. None unless the
    tokenizer is lossless, and where the split has no stories of its own.
    once: only for layout "windows", which scores a token in each window that contains it. Holds
    the metrics of layout "stream", which scores exactly the targets of the baselines, each once.

    Columns of the table, the stories numbered from 0:
    text_id, tokens_id: equal for equal texts, and for equal tokens of equal vocabularies.
    nats, tokens: sums over its scored tokens by the protocol of the perplexity.
    raw_bits, raw_bytes: of the raw text, each token scored once; NaN where the tokens do not hold
    all of it.
    """
    context = model.settings.context
    losses = _losses(model, store, layout, tokenizer.pad_id)
    once = losses
    if layout == "windows":  # neighbouring windows score the same tokens
        once = _losses(model, store, "stream", tokenizer.pad_id)
    read = _read_stories(tokenizer, store, stories)
    bits = once.stories[:, 0] / math.log(2)
    table = pd.DataFrame({"text_id": [_digest([text]) for text in read.texts]})
    table.insert(0, "story", table.index)
    table["tokens_id"] = _tokens_ids(tokenizer, store)
    table["nats"] = losses.stories[:, 0]
    table["tokens"] = losses.stories[:, 1].astype(np.int64)
    table["raw_bits"] = bits if read.is_lossless else math.nan
    table["raw_bytes"] = read.raw_bytes

    text_ids = table["text_id"].tolist()
    different = len(set(text_ids))
    unit = (
        "different stories" if different >= MIN_TEXTS else f"blocks of {context} tokens or windows"
    )
    raw_bytes = sum(read.raw_bytes)
    covered = coverage(store, tokenizer.unk_id, tokenizer.specials - {tokenizer.unk_id})
    metrics = {
        **_loss_metrics(losses, text_ids, context if layout == "windows" else 1),
        "protocol": f"{PROTOCOL[layout]}; the interval resamples {unit}".format(context=context),
        "stories": len(store),
        "different_stories": different,
        "warnings": _repeats(len(store) - different, len(store)),
        "unknown_share": covered["unknown_share"],
        "raw_bits_per_byte": float(bits.sum()) / raw_bytes if read.is_lossless else None,
        "raw_bytes": raw_bytes,
    }
    if layout == "windows":
        metrics["once"] = _loss_metrics(once, text_ids)
    return SplitScore(metrics, table, once.stories)


def headline(metrics: Metrics) -> Metrics:
    """The metrics of a split that are compared between seeds."""
    return {name: metrics[name] for name in HEADLINE}


def _losses(model: TinyLM, store: TokenStore, layout: str, pad_id: int) -> _Losses:
    """The split scored by a layout, every row of it."""
    context = model.settings.context
    starts = scoring_starts(store, layout, context)
    rows = []
    nats = np.zeros(len(store.ids))  # of each token, summed over the rows that score it
    times = np.zeros(len(store.ids))  # that each token is scored
    batches = scoring_batches(store, layout, BATCH_ROWS, context, pad_id)
    for batch, losses in target_losses(model, batches):
        values = losses.double().cpu().numpy()  # (B, T)
        is_scored = batch.targets.numpy() >= 0
        first_targets = starts[: len(values), None] + 1
        starts = starts[len(values) :]
        offsets = first_targets + np.arange(values.shape[1])
        np.add.at(nats, offsets[is_scored], values[is_scored])
        np.add.at(times, offsets[is_scored], 1)
        row_nats = losses.sum(1, dtype=torch.float64).cpu().numpy()
        rows.append(np.column_stack([row_nats, is_scored.sum(1)]))
    lengths = np.diff(store.offsets)
    story = np.repeat(np.arange(len(lengths)), lengths)  # of each token
    story_nats = np.bincount(story, nats, len(lengths))
    story_times = np.bincount(story, times, len(lengths))
    return _Losses(np.concatenate(rows), np.column_stack([story_nats, story_times]))


def _loss_metrics(losses: _Losses, text_ids: Sequence[str], block: int = 1) -> Metrics:
    """Perplexity, its interval, nats per token and tokens.

    The interval resamples different texts, or, with few of them, blocks of `block` rows.
    """
    nats = float(losses.rows[:, 0].sum())
    tokens = int(losses.rows[:, 1].sum())
    units = merge_repeats(losses.stories, text_ids)
    if len(units) < MIN_TEXTS:
        units = np.add.reduceat(losses.rows, np.arange(0, len(losses.rows), block))
    interval = bootstrap_interval(units, pooled_perplexity, RESAMPLES, SEED)
    return {
        "perplexity": perplexity(nats, tokens),
        "perplexity_interval": list(interval),
        "nats_per_token": nats / tokens,
        "tokens": tokens,
    }


def _repeats(repeats: int, stories: int) -> list[str]:
    """The warning to print if some stories repeat the text of an earlier one."""
    if not repeats:
        return []
    return [
        f"{repeats} of {stories} evaluation stories repeat an earlier one; intervals count each text once"
    ]


def _read_stories(tokenizer: Tokenizer, store: TokenStore, stories: str | Path) -> _Stories:
    """The texts of the evaluation split. Raises InputError if they are not the store's."""
    texts = list(read_texts(stories, "evaluation"))
    if not texts:
        decoded = [tokenizer.decode(store.story(index).tolist()) for index in range(len(store))]
        return _Stories(decoded, [0] * len(store), is_lossless=False)
    if len(texts) != len(store):
        counts = f"{len(texts)} evaluation stories, {len(store)} of them in tokens"
        raise InputError(f"{stories}: {counts}; run dvc repro")
    is_lossless = tokenizer.lossless and all(tokenizer.normalise(text) == text for text in texts)
    return _Stories(texts, [len(text.encode()) for text in texts], is_lossless)


def _tokens_ids(tokenizer: Tokenizer, store: TokenStore) -> list[str]:
    vocabulary = _digest(sorted(tokenizer.tokens))
    names = []
    for index in range(len(store)):
        ids = store.story(index).tolist()
        names.append(_digest([vocabulary, *(tokenizer.tokens[token] for token in ids)]))
    return names


def _digest(parts: Sequence[str]) -> str:
    """A name for a sequence of texts, equal for equal ones."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode(errors="surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()[:_ID_DIGITS]
