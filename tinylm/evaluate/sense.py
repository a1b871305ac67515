"""Do storybook stories make sense? Graded by the generator, which knows what can follow what."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tinylm.evaluate.statistics import bootstrap_interval, wilson
from tinylm.storybook.corpus import normalise
from tinylm.storybook.sense import MEANING, Verdict, judge


@dataclasses.dataclass(frozen=True)
class Graded:
    """One text: the words of its prompt and of its continuation, and the verdict on both together."""

    prompt: int
    words: Sequence[str]
    verdict: Verdict

    @property
    def read(self) -> int:
        """Words of the continuation up to the first impossible one, which counts, as an end that comes too soon
        does."""
        return self.verdict.words - self.prompt + bool(self.verdict.kind)


def grade(texts: Iterable[tuple[str, str, bool]]) -> list[Graded]:
    """Texts as (prompt, continuation, whether it ended by itself); what comes after an `<unk>` is not read."""
    graded = []
    for prompt, continuation, ended in texts:
        known, unknown, _ = continuation.partition("<unk>")
        start, words = normalise(prompt).split(), normalise(f"{prompt} {known}").split()
        verdict = judge(words, ended and not unknown)
        if verdict.words >= len(start):
            graded.append(Graded(len(start), words, verdict))
    return graded


def sense(graded: Sequence[Graded], resamples: int, seed: int) -> dict[str, Any]:
    """Figures of texts of one origin, with 95 % intervals.

    possible: share of texts without an impossible word (Wilson's interval, 1927); words: words read for each
    impossible one, over all texts (bootstrap over texts; null if there is none); kinds: how many impossible words are
    of which kind.
    """
    rows = np.array([[text.read, bool(text.verdict.kind)] for text in graded], dtype=float)
    failed = int(rows[:, 1].sum()) if len(rows) else 0
    found: dict[str, Any] = {
        "texts": len(rows),
        "possible": wilson(len(rows) - failed, len(rows)),
        "words": None,
        "kinds": {kind: sum(text.verdict.kind == kind for text in graded) for kind in MEANING},
    }
    if failed:
        low, high = bootstrap_interval(rows, _words_per_error, resamples, seed)
        found["words"] = {"value": float(rows[:, 0].sum() / failed), "low": low, "high": high}
    return found


def _words_per_error(means: np.ndarray) -> np.ndarray:
    return means[:, 0] / np.maximum(means[:, 1], 1e-9)
