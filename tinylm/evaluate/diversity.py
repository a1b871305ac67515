"""How varied generated texts are: distinct and repeated n-grams."""

from collections.abc import Sequence

import numpy as np


def ngrams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """All n-grams of a text in order; none if it has fewer than n words."""
    return [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]


def distinct_n(texts: Sequence[str], n: int) -> float:
    """Different n-grams of words / all n-grams of all texts (Li et al. 2016); 0.0 without any.

    No n-gram spans two texts.
    """
    grams = [gram for text in texts for gram in ngrams(text.split(), n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def repeated_share(texts: Sequence[str], n: int) -> float:
    """Share of a text's n-grams that occurred earlier in it, mean over texts (Welleck et al. 2020).

    Texts shorter than n are left out; 0.0 if none remain.
    """
    shares = repeated_shares(texts, n)
    return float(np.mean(shares)) if shares else 0.0


def repeated_shares(texts: Sequence[str], n: int) -> list[float]:
    """Of each text with n words or more, the share of its n-grams that occurred earlier in it."""
    shares = []
    for text in texts:
        grams = ngrams(text.split(), n)
        if grams:
            shares.append(1 - len(set(grams)) / len(grams))
    return shares
