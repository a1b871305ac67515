"""Kneser-Ney n-grams, exact and fast: the baseline that a trained model has to beat."""

import dataclasses
from collections.abc import Sequence

import numpy as np

_FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)


@dataclasses.dataclass(frozen=True)
class _Level:
    """The n-grams of one length that occur in training, in the order of their keys.

    keys (n-grams,): row of the first n-1 words one level down * V + last word; sorted.
    probs (n-grams,): interpolated P(last word | first n-1 words).
    backoff (contexts,): mass that a context, a row one level down, passes to shorter contexts.
    """

    keys: np.ndarray
    probs: np.ndarray
    backoff: np.ndarray


@dataclasses.dataclass(frozen=True)
class _Occurrences:
    """Where the n-grams of one length occur in the training text of N tokens.

    keys (n-grams,): as in _Level.
    rows (N,): row in `keys` of the n-gram that ends at each token, -1 where there is none.
    ends (n-grams,): a token at which each n-gram ends.
    """

    keys: np.ndarray
    rows: np.ndarray
    ends: np.ndarray


class KneserNey:
    """Interpolated modified Kneser-Ney n-grams (Chen and Goodman 1998).

    P(w | h) = max(a(hw) - D(a(hw)), 0) / A(h) + backoff(h) P(w | h without its first word), down
    to 1/V, where A(h) = sum over w of a(hw) and backoff(h) = sum over w of D(a(hw)) / A(h).
    Where h was never followed by anything, P(w | h) = P(w | shorter h).
    a is the count at the full order, below it the number of different words seen before the
    n-gram. An n-gram that opens a sequence has no word before it. It adds each occurrence, as
    sentence starts do in Heafield et al. 2013. D takes three values per level, from its counts of
    counts.

    sequences: arrays of ids in [0, vocab_size). One array if the text is one stream, one per story
    if contexts must not cross stories. A sequence's first token is context only, never predicted.
    Order 1 is the unigram baseline: discounted relative frequencies, mixed with 1/V so that unseen
    ids have a probability.
    unseen_mass: Good and Turing's estimate of the share of n-grams in new text that are new.
    Raises ValueError for an order below 1.
    """

    def __init__(self, sequences: Sequence[np.ndarray], order: int, vocab_size: int):
        if order < 1:
            raise ValueError(f"order: expected a number >= 1, got {order}")
        self.order = order
        self.vocab_size = vocab_size
        texts = [np.zeros(0, dtype=np.int64), *sequences]
        ids = np.concatenate(texts).astype(np.int64, copy=False)
        position = np.concatenate([np.arange(len(text)) for text in texts])
        self.tokens = len(ids)  # counted
        self._levels = self._count(ids, position)

    def log_probs(self, sequence: np.ndarray) -> np.ndarray:
        """ln P of each token but the first, given up to order - 1 tokens before it.

        sequence (T,) ids -> (T - 1,) float64, empty if T < 2.
        """
        ids = np.asarray(sequence, dtype=np.int64)
        unigrams, *longer = self._levels
        probs = unigrams.probs[ids]  # (T,)
        rows = ids  # (T,) of the n-gram that ends here, -1 where it never occurred
        for level in longer:
            contexts = np.full(len(ids), -1)
            contexts[1:] = rows[:-1]
            rows = _look_up(level.keys, contexts, ids, self.vocab_size)
            has_context = contexts >= 0
            occurs = rows >= 0
            probs[has_context] *= level.backoff[contexts[has_context]]
            probs[occurs] = level.probs[rows[occurs]]
        return np.log(probs[1:])

    def _count(self, ids: np.ndarray, position: np.ndarray) -> list[_Level]:
        """Levels 1 to order, from the joined ids (N,) and each token's position in its sequence.

        Each n-gram is numbered: its row among the sorted keys of its length. An example with one
        sequence, a b a b c, whose ids are 0 1 0 1 2 (V = 3):
            rows of the unigrams that end at each token    0  1  0  1  2
            bigram keys: row one token before * V + id     -  1  3  1  5
            sorted, a b is 1, b a is 3, b c is 5: rows    -1  0  1  0  2
            trigram keys: bigram row before * V + id       -  -  0  4  2
        a b has one word before it in the different trigrams (b a b), and it also opens the
        sequence: its adjusted count is 2. b a and b c have 1 (a b a, a b c).
        """
        size = self.vocab_size
        grams = _Occurrences(np.arange(size), ids, ids[:0])
        shorter = np.full(size, 1 / size)  # P(last word) of each n-gram, one level down
        contexts = 1
        levels: list[_Level] = []
        for length in range(1, self.order + 1):
            longer = None
            if length < self.order:
                longer = _extend(ids, position, grams.rows, length, size)
            counted = _counted_ends(position, length, longer)
            counts = np.bincount(grams.rows[counted], minlength=len(grams.keys))
            level = _interpolate(grams.keys, counts, shorter, contexts, size)
            levels.append(level)
            if longer is not None:
                shorter = level.probs[grams.rows[longer.ends]]
                contexts = len(grams.keys)
                grams = longer
        self.unseen_mass = float((counts == 1).sum() / max(counts.sum(), 1))
        return levels


def _counted_ends(position: np.ndarray, length: int, longer: _Occurrences | None) -> np.ndarray:
    """The tokens at which a counted n-gram of this length ends. longer: None at the full order.

    At the full order every predicted token counts. Below it an n-gram counts once for each different
    word before it, and each time that it opens a sequence.
    """
    if longer is None:
        return np.flatnonzero(position >= max(length - 1, 1))
    if length == 1:
        return longer.ends  # a sequence's first token is never predicted
    opening = np.flatnonzero(position == length - 1)
    return np.concatenate([longer.ends, opening])


def _extend(
    ids: np.ndarray, position: np.ndarray, rows: np.ndarray, length: int, vocab_size: int
) -> _Occurrences:
    """Find the n-grams one longer than `length`, whose rows (N,) are given."""
    ends = np.flatnonzero(position >= length)
    contexts = rows[ends - 1]
    every_key = contexts * vocab_size + ids[ends]
    keys, first, inverse = np.unique(every_key, return_index=True, return_inverse=True)
    longer = np.full(len(ids), -1)
    longer[ends] = inverse
    return _Occurrences(keys, longer, ends[first])


def _interpolate(
    keys: np.ndarray, counts: np.ndarray, shorter: np.ndarray, contexts: int, vocab_size: int
) -> _Level:
    """Probabilities and back-off masses of one level from its adjusted counts (n-grams,)."""
    context = keys // vocab_size
    discounts = np.array([0.0, *_discounts(counts)])
    discount = discounts[np.minimum(counts, 3)]
    total = np.bincount(context, weights=counts, minlength=contexts)
    discounted = np.bincount(context, weights=discount, minlength=contexts)
    backoff = np.ones(contexts)
    np.divide(discounted, total, out=backoff, where=total > 0)
    rest = counts - discount
    seen_probs = np.zeros(len(keys))
    np.divide(rest, total[context], out=seen_probs, where=counts > 0)
    probs = seen_probs + backoff[context] * shorter
    return _Level(keys, probs, backoff)


def _discounts(counts: np.ndarray) -> Sequence[float]:
    """D1, D2, D3+ of one level: Y = n1 / (n1 + 2 n2), Dk = k - (k + 1) Y n(k+1) / nk.

    A corpus that is too small gets fixed discounts: no n-gram was counted once, twice, three or
    four times, or a discount is outside (0, k].
    """
    n = np.bincount(np.minimum(counts, 5), minlength=6)  # n-grams counted 0, 1, 2, ... times
    if (n[1:5] == 0).any():
        return _FALLBACK_DISCOUNTS
    y = n[1] / (n[1] + 2 * n[2])
    discounts = []
    for k in (1, 2, 3):
        discount = k - (k + 1) * y * n[k + 1] / n[k]
        if not 0 < discount <= k:
            return _FALLBACK_DISCOUNTS
        discounts.append(float(discount))
    return discounts


def _look_up(
    keys: np.ndarray, contexts: np.ndarray, words: np.ndarray, vocab_size: int
) -> np.ndarray:
    """Rows (T,) of the n-grams `contexts` + `words`.

    -1 where the n-gram or its context never occurred.
    """
    wanted = contexts * vocab_size + words
    rows = np.searchsorted(keys, wanted)
    occurs = (contexts >= 0) & (rows < len(keys))
    occurs[occurs] = keys[rows[occurs]] == wanted[occurs]
    return np.where(occurs, rows, -1)
