"""Is it memorised? What the continuations share with train, compared with what the true continuations share with it."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tinylm.evaluate.continuations import EvaluateSettings
from tinylm.evaluate.copied import NEAR, ORDERS, Copied, copied
from tinylm.evaluate.statistics import bootstrap_interval, mean
from tinylm.vocab.token_store import TokenStore
from tinylm.vocab.tokenizer import Tokenizer

PROTOCOL = (
    "Words as the model has them, prompts left out. A run is a sequence of words that also occurs within one story of "
    "train; an n-gram is new if train does not have it; the nearest story of train is the one that has most of the "
    f"text's different {NEAR}-grams. The stories' own continuations, which the model never saw, show what chance and "
    "the kind of text give."
)
TEXTS = (("continuation", "ids"), ("reference", "reference_ids"))


def words_of(tokenizer: Tokenizer, ids: Iterable[int]) -> list[str]:
    """The words that ids spell, without special tokens except `<unk>`: entries of a word vocabulary, otherwise
    whatever is between white space."""
    if tokenizer.kind != "words":
        return tokenizer.decode(ids).split()
    marks = tokenizer.specials - {tokenizer.unk_id}
    return [tokenizer.tokens[index] for index in ids if index not in marks]


def measure_memorised(
    rows: Sequence[dict[str, Any]],
    tokenizer: Tokenizer,
    train: TokenStore,
    settings: EvaluateSettings,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(figures of the continuations and of the references, one row per text) of rows of `continue_stories`.

    Figures with 95 % bootstrap intervals over texts; texts without a word are left out of them.
    """
    texts = [words_of(tokenizer, row[key]) for _, key in TEXTS for row in rows]
    found = copied(
        texts, (words_of(tokenizer, train.story(index).tolist()) for index in range(len(train)))
    )
    own, true = found[: len(rows)], found[len(rows) :]
    figures: dict[str, Any] = {"protocol": PROTOCOL, "train_stories": len(train)}
    for (name, _), values in zip(TEXTS, (own, true), strict=True):
        figures[f"{name}s"] = _figures([value for value in values if value.words], settings)
    table = [
        {"prompt": row["prompt"], "text": name, **_cells(value, tokenizer, train)}
        for row, pair in zip(rows, zip(own, true, strict=True), strict=True)
        for (name, _), value in zip(TEXTS, pair, strict=True)
    ]
    return figures, table


def _figures(found: Sequence[Copied], settings: EvaluateSettings) -> dict[str, Any]:
    """Means over texts of the longest run and the overlap, and the share of new n-grams among all of the texts."""

    def interval(values: Sequence[Any], statistic: Any) -> dict[str, float]:
        table = np.array(values, dtype=float)
        low, high = bootstrap_interval(table, statistic, settings.bootstrap, settings.seed)
        value = statistic(table.reshape(len(table), -1).mean(0, keepdims=True))[0]
        return {"value": float(value), "low": low, "high": high}

    figures: dict[str, Any] = {"count": len(found), "words": sum(text.words for text in found)}
    if not found:
        return figures
    runs = [text.longest for text in found]
    figures |= {
        "longest_run": interval(runs, mean),
        "longest_run_median": float(np.median(runs)),
        "longest_run_largest": max(runs),
        "whole": sum(text.longest == text.words for text in found),
        "new": {},
    }
    for n in ORDERS:
        counts = [text.new[n] for text in found if text.new[n][1]]  # of texts that have n words
        if counts:
            figures["new"][str(n)] = interval(counts, _ratio)
    long_enough = [text.overlap for text in found if text.words >= NEAR]
    if long_enough:
        figures["overlap"] = interval(long_enough, mean)
    return figures


def _ratio(means: np.ndarray) -> np.ndarray:
    """Statistic for `bootstrap_interval`: the sum of the first over the sum of the second of two counts per sample."""
    return means[:, 0] / means[:, 1]


def _cells(text: Copied, tokenizer: Tokenizer, train: TokenStore) -> dict[str, Any]:
    new = {f"new_{n}": count / of if of else None for n, (count, of) in text.new.items()}
    nearest = "" if text.nearest is None else tokenizer.decode(train.story(text.nearest).tolist())
    number, near = ("" if story is None else story for story in (text.run_story, text.nearest))
    return {
        "words": text.words,
        "longest_run": text.longest,
        "run": text.run,
        "run_story": number,
        **new,
        "overlap": text.overlap,
        "nearest_story": near,
        "nearest": nearest,
    }
