"""The baselines that a trained model has to beat: uniform, unigram, Kneser-Ney n-grams."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)


class _Level(NamedTuple):
    """The n-grams of one length that occur in training, in the order of their keys."""

    keys: np.ndarray  # (n-grams,) row of the first n-1 words one level down * V + last word; sorted
    probs: np.ndarray  # (n-grams,) interpolated P(last word | first n-1 words)
    backoff: (
        np.ndarray
    )  # (contexts,) mass that a context, a row one level down, passes to shorter contexts


class _Found(NamedTuple):
    """Where the n-grams of one length occur in the training text."""

    keys: np.ndarray  # (n-grams,) as in _Level
    rows: (
        np.ndarray
    )  # (N,) row in `keys` of the n-gram that ends at each token, -1 where there is none
    ends: np.ndarray  # (n-grams,) a token at which each n-gram ends


class KneserNey:
    """Interpolated modified Kneser-Ney n-grams (Chen and Goodman 1998).

    P(w | h) = max(a(hw) - D(a(hw)), 0) / A(h) + backoff(h) P(w | h without its first word), down to 1/V, where
    A(h) = sum over w of a(hw), backoff(h) = sum over w of D(a(hw)) / A(h), and P(w | h) = P(w | shorter h) where h
    was never followed by anything. a is the count at the full order, below it the number of different words
    seen before the n-gram; an n-gram that opens a sequence has no word before it and adds each occurrence, as
    sentence starts do in Heafield et al. 2013. D takes three values per level, from its counts of counts.

    `sequences` are arrays of ids in [0, vocab_size): one array if the text is one stream, one per story if
    contexts must not cross stories. A sequence's first token is context only, never predicted. Order 1 is the
    unigram baseline: discounted relative frequencies, mixed with 1/V so that unseen ids have a probability.
    Raises ValueError for an order below 1 and for ids outside the vocabulary.
    """

    def __init__(self, sequences: Sequence[np.ndarray], order: int, vocab_size: int):
        if order < 1:
            raise ValueError(f"order {order}; allowed: at least 1")
        self.order, self.vocab_size = order, vocab_size
        ids, place = _join(sequences)
        self._check(ids)
        self._levels = self._count(ids, place)

    def log_probs(self, sequence: np.ndarray) -> np.ndarray:
        """Natural-log probability of each token but the first, given up to order - 1 tokens before it.

        sequence (T,) ids -> (T - 1,) float64, empty if T < 2.
        """
        ids = np.asarray(sequence, dtype=np.int64)
        self._check(ids)
        unigrams, *longer = self._levels
        probs = unigrams.probs[ids]  # (T,)
        rows = ids  # (T,) of the n-gram that ends here, -1 where it never occurred
        for level in longer:
            contexts = np.concatenate(([-1], rows[:-1]))[: len(ids)]
            rows = _look_up(level.keys, contexts, ids, self.vocab_size)
            seen, found = contexts >= 0, rows >= 0
            probs[seen] *= level.backoff[contexts[seen]]
            probs[found] = level.probs[rows[found]]
        return np.log(probs[1:])

    def next_probs(self, context: Sequence[int]) -> np.ndarray:
        """Probability of every id after a context, of which up to order - 1 tokens count.  -> (V,) float64"""
        unigrams, *longer = self._levels
        probs = unigrams.probs.copy()
        recent = np.asarray(context[max(len(context) - self.order + 1, 0) :], dtype=np.int64)
        self._check(recent)
        for length, level in enumerate(longer[: len(recent)], start=1):
            row = self._row(recent[len(recent) - length :])
            if row < 0:  # never occurred, so no longer context did
                break
            first, last = np.searchsorted(
                level.keys, [row * self.vocab_size, (row + 1) * self.vocab_size]
            )
            probs *= level.backoff[row]
            probs[level.keys[first:last] % self.vocab_size] = level.probs[first:last]
        return probs

    def _row(self, words: np.ndarray) -> int:
        """The row of an n-gram among those of its length, -1 if it never occurred."""
        row = int(words[0])
        for level, word in zip(self._levels[1:], words[1:], strict=False):
            (row,) = _look_up(
                level.keys, np.array([row]), np.array([word]), self.vocab_size
            ).tolist()
        return row

    def _check(self, ids: np.ndarray) -> None:
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < self.vocab_size:
            raise ValueError(
                f"ids from {ids.min()} to {ids.max()}; allowed: 0 to {self.vocab_size - 1}"
            )

    def _count(self, ids: np.ndarray, place: np.ndarray) -> list[_Level]:
        """Levels 1 to order, from the joined ids (N,) and each token's place in its sequence (N,)."""
        found = _Found(np.arange(self.vocab_size), ids, ids[:0])
        shorter = np.full(
            self.vocab_size, 1 / self.vocab_size
        )  # P(last word) of each n-gram, one level down
        contexts = 1
        levels: list[_Level] = []
        for length in range(1, self.order):
            longer = _extend(ids, place, found.rows, length, self.vocab_size)
            openings = np.flatnonzero(place == length - 1) if length > 1 else ids[:0]
            counts = np.bincount(
                found.rows[np.concatenate((longer.ends, openings))], minlength=len(found.keys)
            )
            levels.append(_interpolate(found.keys, counts, shorter, contexts, self.vocab_size))
            shorter, contexts = levels[-1].probs[found.rows[longer.ends]], len(found.keys)
            found = longer
        counts = np.bincount(found.rows[place >= max(self.order - 1, 1)], minlength=len(found.keys))
        return [*levels, _interpolate(found.keys, counts, shorter, contexts, self.vocab_size)]


def uniform_log_probs(sequence: np.ndarray, vocab_size: int) -> np.ndarray:
    """The baseline that knows the vocabulary and nothing else: -ln V for each token except the first."""
    return np.full(max(len(sequence) - 1, 0), -np.log(vocab_size))


def _join(sequences: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """All sequences in one array (N,) and each token's place in its own sequence (N,), from 0."""
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    ids = np.concatenate([np.zeros(0, dtype=np.int64), *sequences]).astype(np.int64, copy=False)
    starts = np.cumsum(lengths) - lengths
    return ids, np.arange(len(ids)) - np.repeat(starts, lengths)


def _extend(
    ids: np.ndarray, place: np.ndarray, rows: np.ndarray, length: int, vocab_size: int
) -> _Found:
    """Find the n-grams one longer than `length`, whose own rows (N,) are given."""
    at = np.flatnonzero(place >= length)
    keys, inverse = np.unique(rows[at - 1] * vocab_size + ids[at], return_inverse=True)
    longer = np.full(len(ids), -1)
    longer[at] = inverse
    ends = np.empty(len(keys), dtype=np.int64)
    ends[inverse] = at
    return _Found(keys, longer, ends)


def _interpolate(
    keys: np.ndarray, counts: np.ndarray, shorter: np.ndarray, contexts: int, vocab_size: int
) -> _Level:
    """Probabilities and back-off masses of one level from its adjusted counts (n-grams,)."""
    context = keys // vocab_size
    discount = np.array([0.0, *_discounts(counts)])[np.minimum(counts, 3)]
    total = np.bincount(context, weights=counts, minlength=contexts)
    kept = np.bincount(context, weights=discount, minlength=contexts)
    backoff = np.divide(kept, total, out=np.ones(contexts), where=total > 0)
    own = np.divide(counts - discount, total[context], out=np.zeros(len(keys)), where=counts > 0)
    return _Level(keys, own + backoff[context] * shorter, backoff)


def _discounts(counts: np.ndarray) -> tuple[float, float, float]:
    """D1, D2, D3+ of one level: Y = n1 / (n1 + 2 n2), Dk = k - (k + 1) Y n(k+1) / nk.

    A corpus that is too small (no n-gram counted once, twice, three or four times, or a discount outside
    (0, k]) gets fixed discounts.
    """
    n1, n2, n3, n4 = (int(np.count_nonzero(counts == k)) for k in (1, 2, 3, 4))
    if min(n1, n2, n3, n4) == 0:
        return _FALLBACK_DISCOUNTS
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return found if all(0 < d <= k for k, d in enumerate(found, start=1)) else _FALLBACK_DISCOUNTS


def _look_up(
    keys: np.ndarray, contexts: np.ndarray, words: np.ndarray, vocab_size: int
) -> np.ndarray:
    """Rows (T,) of the n-grams `contexts` + `words`, -1 where the n-gram or its context never occurred."""
    wanted = contexts * vocab_size + words
    rows = np.searchsorted(keys, wanted)
    known = (contexts >= 0) & (rows < len(keys))
    known[known] = keys[rows[known]] == wanted[known]
    return np.where(known, rows, -1)
