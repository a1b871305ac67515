"""How varied generated texts are: distinct and repeated n-grams."""

from collections.abc import Sequence

import numpy as np


def distinct_n(texts: Sequence[str], n: int) -> float:
    """Different n-grams of words / all n-grams of all texts (Li et al. 2016); 0.0 if there are none.

    No n-gram spans two texts.
    """
    grams = [gram for text in texts for gram in _ngrams(text, n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def repeated_share(texts: Sequence[str], n: int) -> float:
    """Share of a text's n-grams that occurred earlier in the same text, mean over texts (Welleck et al. 2020).

    Texts shorter than n are left out; 0.0 if none remain.
    """
    shares = repeated_shares(texts, n)
    return float(np.mean(shares)) if shares else 0.0


def repeated_shares(texts: Sequence[str], n: int) -> list[float]:
    """Of each text with n words or more, the share of its n-grams that occurred earlier in it."""
    grams = [found for text in texts if (found := _ngrams(text, n))]
    return [1 - len(set(found)) / len(found) for found in grams]


def _ngrams(text: str, n: int) -> list[tuple[str, ...]]:
    words = text.split()
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
