"""How varied generated texts are: distinct and repeated n-grams."""

from collections.abc import Sequence

import numpy as np

from tinylm.download.same_story import spaced


def ngrams(text: str, n: int) -> list[tuple[str, ...]]:
    """All n-grams of a text's words in order; none if it has fewer than n words.

    In scripts without spaces each character is a word.
    """
    words = spaced(text).split()
    starts = range(len(words) - n + 1)
    return [tuple(words[start : start + n]) for start in starts]


def distinct_n(texts: Sequence[str], n: int) -> float:
    """Different n-grams of words / all n-grams of all texts (Li et al. 2016); 0.0 without any.

    No n-gram spans two texts.
    """
    grams = []
    for text in texts:
        grams += ngrams(text, n)
    return len(set(grams)) / max(len(grams), 1)


def repeated_share(texts: Sequence[str], n: int) -> float:
    """Share of a text's n-grams that occurred earlier in it, mean over texts (Welleck et al. 2020).

    Texts shorter than n are left out; 0.0 if none remain.
    """
    shares = []
    for text in texts:
        grams = ngrams(text, n)
        if grams:
            shares.append(1 - len(set(grams)) / len(grams))
    return float(np.mean(shares)) if shares else 0.0
