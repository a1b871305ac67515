"""Perplexity and bits per byte of the whole evaluation split, and of each of its stories."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tinylm.download.stories import read_stories
from tinylm.evaluate.bits_per_byte import Spelling, bits_per_byte
from tinylm.evaluate.continuations import EvaluateSettings
from tinylm.evaluate.perplexity import perplexity, story_nats
from tinylm.evaluate.side_model import dropped_nats
from tinylm.evaluate.statistics import bootstrap_interval, pooled_perplexity
from tinylm.evaluate.story_texts import story_rows, story_texts
from tinylm.model.transformer import TinyLM
from tinylm.train.split_loss import target_losses
from tinylm.vocab.batches import scoring_batches, scoring_starts
from tinylm.vocab.token_store import TokenStore, coverage
from tinylm.vocab.tokenizer import Tokenizer

BATCH_ROWS = 32
HEADLINE = ("perplexity", "nats_per_token", "bits_per_byte", "raw_bits_per_byte")
PROTOCOL = {
    "stream": "the split as one stream in non-overlapping windows of {context} tokens; <sos> and <eos> are scored",
    "stories": "each story from its <sos>, in rows of at most {context} tokens; <eos> is scored, <sos> is given",
    "windows": "every window of {context} tokens at stride 1, each of its tokens scored (bits per byte, and the "
    "perplexity held against the baselines: windows that do not overlap); the interval draws blocks of {context} "
    "windows",
}


@dataclasses.dataclass(frozen=True)
class SplitScore:
    """Figures of the split, as in metrics/evaluate.json, and a row for each story (`story_rows`)."""

    figures: dict[str, Any]
    stories: list[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class _Losses:
    """rows (R, 2): nats and scored tokens of each row; nats (N,) and times (N,): of each token of the stream."""

    rows: np.ndarray
    nats: np.ndarray
    times: np.ndarray


def score_split(
    model: TinyLM,
    tokenizer: Tokenizer,
    store: TokenStore,
    layout: str,
    stories: str | Path,
    settings: EvaluateSettings,
) -> SplitScore:
    """Perplexity (95 % bootstrap interval over rows), nats per token, bits per byte and share of unknown words.

    raw_bits_per_byte is over every byte of the stories as stage download wrote them, whatever the tokenizer: the loss
    of all tokens, unknown words spelt, and what the tokenizer drops told by a model of the train stories (`side_model`;
    raw_side_bits_per_byte is its part). None if the split has no stories of its own, or if that has no price.

    Layout "windows" scores a token in each window that contains it; "once" then has the figures of layout "stream",
    which scores exactly the targets of the baselines, each once. The other layouts do this anyway and have no "once".
    bits_per_byte is of the normalised text, None if the text has no bytes, or if its unknown words are no longer known.
    """
    context = model.settings.context
    found = once = _losses(model, store, layout, tokenizer.pad_id)
    rows = found.rows
    if layout == "windows":  # neighbouring windows score the same tokens
        once = _losses(model, store, "stream", tokenizer.pad_id)
        rows = np.add.reduceat(rows, np.arange(0, len(rows), context))
    known = coverage(store, tokenizer.unk_id, tokenizer.specials - {tokenizer.unk_id})
    texts = story_texts(tokenizer, store, stories)
    n_bytes, unknown = int(texts.n_bytes.sum()), [word for words in texts.unknown for word in words]
    spelling = Spelling(
        filter(None, map(tokenizer.word_of, range(len(tokenizer)))) if unknown else ()
    )
    priced = n_bytes > 0 and len(unknown) == known["unknown"]
    figures = {
        **_figures(rows, settings),
        "bits_per_byte": bits_per_byte(float(once.rows[:, 0].sum()), unknown, n_bytes, spelling)
        if priced
        else None,
        "bytes": n_bytes,
        "unknown_share": known["unknown_share"],
        "protocol": PROTOCOL[layout].format(context=context),
        **({"once": _figures(once.rows, settings)} if layout == "windows" else {}),
    }
    sums, (sums_once, _) = (
        story_nats(losses.nats, losses.times, store.offsets) for losses in (found, once)
    )
    train = (row["text"] for row in read_stories(stories, "train"))
    dropped = dropped_nats(tokenizer, train, texts.raw) if texts.raw and priced else None
    table = story_rows(
        tokenizer, store, texts, sums, sums_once, spelling if priced else None, dropped
    )
    return SplitScore(figures | _raw(table, dropped), table)


def _raw(stories: list[dict[str, Any]], dropped: np.ndarray | None) -> dict[str, Any]:
    """The figures of the raw text from the stories' rows and the nats (S,) for what the tokenizer drops."""
    n_bytes = sum(row["raw_bytes"] for row in stories)
    if dropped is None or not n_bytes:
        return {"raw_bits_per_byte": None, "raw_side_bits_per_byte": None, "raw_bytes": n_bytes}
    return {
        "raw_bits_per_byte": sum(row["raw_bits"] for row in stories) / n_bytes,
        "raw_side_bits_per_byte": float(dropped.sum()) / math.log(2) / n_bytes,
        "raw_bytes": n_bytes,
    }


def headline(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures of a split that are compared between seeds."""
    return {name: figures[name] for name in HEADLINE}


def _losses(model: TinyLM, store: TokenStore, layout: str, pad_id: int) -> _Losses:
    """The split scored by a layout, every row of it; a token's nats are summed over the rows that score it."""
    context, first = model.settings.context, 0
    starts = scoring_starts(store, layout, context)
    rows, nats, times = [], np.zeros(len(store.ids)), np.zeros(len(store.ids), dtype=np.int64)
    for batch, losses in target_losses(
        model, scoring_batches(store, layout, BATCH_ROWS, context, pad_id)
    ):
        values, scored = losses.double().cpu().numpy(), batch.targets.numpy() >= 0  # (B, T)
        places = starts[first : first + len(values), None] + 1 + np.arange(values.shape[1])
        np.add.at(nats, places[scored], values[scored])
        np.add.at(times, places[scored], 1)
        rows.append(
            np.stack([losses.sum(1, dtype=torch.float64).cpu().numpy(), scored.sum(1)], axis=1)
        )
        first += len(values)
    return _Losses(np.concatenate(rows), nats, times)


def _figures(rows: np.ndarray, settings: EvaluateSettings) -> dict[str, Any]:
    """Perplexity, its interval, nats per token and tokens of rows of (nats, tokens): rows (R, 2)."""
    nats, tokens = float(rows[:, 0].sum()), int(rows[:, 1].sum())
    return {
        "perplexity": perplexity(nats, tokens),
        "perplexity_interval": list(
            bootstrap_interval(rows, pooled_perplexity, settings.bootstrap, settings.seed)
        ),
        "nats_per_token": nats / tokens,
        "tokens": tokens,
    }
