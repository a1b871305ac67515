"""Do storybook stories make sense? The generator lists the words that can follow each beginning."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from tinylm.evaluate.settings import RESAMPLES, SEED, Metrics, Rows
from tinylm.evaluate.statistics import bootstrap_interval, wilson
from tinylm.storybook.corpus import normalise
from tinylm.storybook.sense import MEANING, Verdict, judge

PROTOCOL = (
    "A continuation is read up to its first impossible word: one that no story of the generator "
    "has after the words before it. A text whose prompt is impossible already is left out."
)

Text = tuple[str, str, bool]  # prompt, continuation, whether it ended by itself


class Graded(NamedTuple):
    """A text: its number, all its words, the verdict, and how many words of the continuation were read.

    The first impossible word is read, and an end that comes too soon counts as a word.
    """

    number: int
    words: Sequence[str]
    verdict: Verdict
    read: int


def grade(texts: Iterable[Text]) -> list[Graded]:
    """The verdict on each text, numbered from 0; what comes after an `<unk>` is not read."""
    graded = []
    for number, (prompt, continuation, ended) in enumerate(texts):
        readable, unknown, _ = continuation.partition("<unk>")
        start = len(normalise(prompt).split())
        words = normalise(f"{prompt} {readable}").split()
        verdict = judge(words, ended and not unknown)
        if verdict.words >= start:
            read = verdict.words - start + bool(verdict.kind)
            graded.append(Graded(number, words, verdict, read))
    return graded


def sense(graded: Sequence[Graded], resamples: int, seed: int) -> Metrics:
    """Metrics of texts of one origin, with 95 % intervals.

    possible: share of texts without an impossible word (Wilson's interval).
    words: words read per impossible word, over all texts (bootstrap over texts; None without one).
    kinds: how many impossible words are of which kind.
    """
    kinds = [text.verdict.kind for text in graded]
    failed = len(kinds) - kinds.count("")
    rows = np.zeros((len(graded), 2))  # of each text: words read, impossible words
    rows[:, 0] = [text.read for text in graded]
    rows[:, 1] = [kind != "" for kind in kinds]
    metrics: Metrics = {
        "texts": len(rows),
        "possible": wilson(len(rows) - failed, len(rows)),
        "words": None,
        "kinds": {kind: kinds.count(kind) for kind in MEANING},
    }
    if failed:
        low, high = bootstrap_interval(rows, _words_per_error, resamples, seed)
        value = float(rows[:, 0].sum() / failed)
        metrics["words"] = {"value": value, "low": low, "high": high}
    return metrics


def _words_per_error(means: np.ndarray) -> np.ndarray:
    errors = np.maximum(means[:, 1], 1e-9)
    return means[:, 0] / errors


def judge_samples(samples: pd.DataFrame) -> tuple[Metrics, Rows]:
    """(metrics of the samples of section decode, with the protocol; `rows_of` them)."""
    columns = samples[["prompt", "continuation", "finished"]]
    graded = grade(columns.itertuples(index=False))
    methods = {"decode": sense(graded, RESAMPLES, SEED)}
    return {"protocol": PROTOCOL, "kinds": MEANING, "methods": methods}, rows_of(graded)


def rows_of(graded: Iterable[Graded]) -> Rows:
    """A row for each text with an impossible word.

    It has the text's number, the words before, the word, its kind, and words possible instead.
    """
    rows = []
    for text in graded:
        if text.verdict.kind:
            row = {
                "sample": text.number,
                "story": " ".join(text.words[: text.verdict.words]),
                "word": text.verdict.word or "<eos>",
                "kind": text.verdict.kind,
                "instead": ", ".join(word or "<eos>" for word in text.verdict.expected),
            }
            rows.append(row)
    return rows
