"""Perplexity and bits per byte of the whole evaluation split, and of each of its stories."""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from tinylm.base.config import InputError
from tinylm.evaluate.intervals import (
    bootstrap_interval,
    merge_repeats,
    pooled_perplexity,
)
from tinylm.evaluate.scoring import perplexity
from tinylm.evaluate.settings import RESAMPLES, SEED
from tinylm.model.transformer import TinyLM
from tinylm.run.evaluated import LossWithInterval, SplitLoss
from tinylm.run.interval import MIN_TEXTS
from tinylm.text.stories import read_texts
from tinylm.train.cores import cores
from tinylm.train.validation import target_losses
from tinylm.vocab.batches import scoring_batches, scoring_starts
from tinylm.vocab.coverage import coverage
from tinylm.vocab.token_store import TokenStore
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
    """The result of `score_split`.

    loss: of the whole split.
    table: a row for each story, as in data/evaluate/stories.csv.
    scored_once (S, 2): nats and tokens of each story, each token scored once. Only in layout "windows" do
    they differ from the table's.
    """

    loss: SplitLoss
    table: pd.DataFrame
    scored_once: np.ndarray


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
    rows, of_stories = _losses(model, store, layout, tokenizer.pad_id)
    rows_scored_once, scored_once = rows, of_stories
    if layout == "windows":  # neighbouring windows score the same tokens
        rows_scored_once, scored_once = _losses(model, store, "stream", tokenizer.pad_id)
    texts, raw_bytes, is_lossless = _read_stories(tokenizer, store, stories)
    bits = scored_once[:, 0] / math.log(2)
    table = pd.DataFrame({"text_id": [_digest([text]) for text in texts]})
    table.insert(0, "story", table.index)
    table["tokens_id"] = _tokens_ids(tokenizer, store)
    table["nats"] = of_stories[:, 0]
    table["tokens"] = of_stories[:, 1].astype(np.int64)
    table["raw_bits"] = bits if is_lossless else math.nan
    table["raw_bytes"] = raw_bytes

    text_ids = table["text_id"].tolist()
    different = len(set(text_ids))
    unit = (
        "different stories" if different >= MIN_TEXTS else f"blocks of {context} tokens or windows"
    )
    repeats = []
    if different < len(store):
        repeats.append(
            f"{len(store) - different} of {len(store)} evaluation stories repeat an earlier one; "
            "intervals count each text once"
        )
    covered = coverage(store, tokenizer.unk_id, tokenizer.specials - {tokenizer.unk_id})
    whole = _loss(rows, of_stories, text_ids, context if layout == "windows" else 1)
    loss = SplitLoss(
        **vars(whole),
        protocol=f"{PROTOCOL[layout]}; the interval resamples {unit}".format(context=context),
        stories=len(store),
        different_stories=different,
        warnings=repeats,
        unknown_share=covered["unknown_share"],
        raw_bits_per_byte=float(bits.sum()) / sum(raw_bytes) if is_lossless else None,
        raw_bytes=sum(raw_bytes),
        scored_once=_loss(rows_scored_once, scored_once, text_ids) if layout == "windows" else None,
    )
    return SplitScore(loss, table, scored_once)


def headline(loss: SplitLoss) -> dict[str, float | None]:
    """The metrics of a split that are compared between seeds."""
    return {name: getattr(loss, name) for name in HEADLINE}


def _losses(
    model: TinyLM, store: TokenStore, layout: str, pad_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """Nats and scored tokens of each row of a layout, (R, 2), and of each story, (S, 2).

    Those of a story are sums over all rows that score its tokens.
    """
    context = model.settings.context
    starts = scoring_starts(store, layout, context)
    rows = []
    nats = np.zeros(len(store.ids))  # of each token, summed over the rows that score it
    times = np.zeros(len(store.ids))  # that each token is scored
    batches = scoring_batches(store, layout, BATCH_ROWS, context, pad_id)
    count = cores(model.embedding.device)
    for batch, losses in target_losses(model, batches, count=count):
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
    return np.concatenate(rows), np.column_stack([story_nats, story_times])


def _loss(
    rows: np.ndarray, stories: np.ndarray, text_ids: Sequence[str], block: int = 1
) -> LossWithInterval:
    """Perplexity, its interval, nats per token and tokens; rows, stories: what `_losses` returns.

    The interval resamples different texts, or, with few of them, blocks of `block` rows.
    """
    nats = float(rows[:, 0].sum())
    tokens = int(rows[:, 1].sum())
    units = merge_repeats(stories, text_ids)
    if len(units) < MIN_TEXTS:
        units = np.add.reduceat(rows, np.arange(0, len(rows), block))
    interval = bootstrap_interval(units, pooled_perplexity, RESAMPLES, SEED)
    return LossWithInterval(perplexity(nats, tokens), list(interval), nats / tokens, tokens)


def _read_stories(
    tokenizer: Tokenizer, store: TokenStore, stories: str | Path
) -> tuple[list[str], list[int], bool]:
    """(texts of the evaluation stories, bytes of each, whether the tokens hold every byte).

    A split that is a part of the training stream has no stories of its own. Its ids are decoded, and
    their bytes count as 0. Raises InputError if the texts are not the store's.
    """
    texts = list(read_texts(stories, "evaluation"))
    if not texts:
        decoded = [tokenizer.decode(store.story(index).tolist()) for index in range(len(store))]
        return decoded, [0] * len(store), False
    if len(texts) != len(store):
        counts = f"{len(texts)} evaluation stories, {len(store)} of them in tokens"
        raise InputError(f"{stories}: {counts}; run dvc repro")
    is_lossless = tokenizer.lossless and all(tokenizer.normalise(text) == text for text in texts)
    return texts, [len(text.encode()) for text in texts], is_lossless


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
