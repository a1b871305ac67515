"""Bits per byte: the metric that compares models over different tokenizers."""

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np

from tinylm.evaluate.ngram import KneserNey

_BORDER = 256  # opens and ends each word, in addition to the 256 values of a byte
_ORDER = 5


class Spelling:
    """The cost of spelling a word: Kneser-Ney of order 5 over the UTF-8 bytes of different words.

    A word's probability is that of its bytes and of the border after them, so the probabilities of
    all byte strings sum to one.
    """

    def __init__(self, words: Iterable[str]):
        spelt = [_bytes(word) for word in sorted(set(words))]
        self._model = KneserNey(spelt, _ORDER, _BORDER + 1)

    def nats(self, word: str) -> float:
        """-ln P(bytes of the word, border); finite for every word, the empty one included."""
        return -float(self._model.log_probs(_bytes(word)).sum())


def bits_per_byte(
    nats: float, unknown_words: Iterable[str], n_bytes: int, spelling: Spelling
) -> float:
    """(nats + spelling of each unknown word) / (ln 2 * n_bytes).

    nats: the loss of the whole id sequence, with `<unk>` where a word is unknown.
    unknown_words: these words, each as often as it occurs.
    n_bytes: the UTF-8 length, at least 1, of the same normalised text, words joined by one space.
    """
    spelt = sum(times * spelling.nats(word) for word, times in Counter(unknown_words).items())
    return (nats + spelt) / (math.log(2) * n_bytes)


def _bytes(word: str) -> np.ndarray:
    return np.array([_BORDER, *word.encode(), _BORDER])
