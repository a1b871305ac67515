"""How varied generated texts are: distinct and repeated n-grams.

In scripts without spaces each character is a word.
"""

from collections.abc import Sequence

import numpy as np

from tinylm.text.words import spaced


def ngrams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """All n-grams of words in order; none if there are fewer than n words."""
    return list(zip(*(words[start:] for start in range(n))))


def distinct_n(texts: Sequence[str], n: int) -> float:
    """Different n-grams of words / all n-grams of all texts (Li et al. 2016); 0.0 without any.

    No n-gram spans two texts.
    """
    grams = []
    for text in texts:
        grams += ngrams(spaced(text).split(), n)
    return len(set(grams)) / max(len(grams), 1)


def repeated_share(texts: Sequence[str], n: int) -> float:
    """Share of a text's n-grams that occurred earlier in it, mean over texts (Welleck et al. 2020).

    Texts shorter than n are left out; 0.0 if none remain.
    """
    shares = []
    for text in texts:
        grams = ngrams(spaced(text).split(), n)
        if grams:
            shares.append(1 - len(set(grams)) / len(grams))
    return float(np.mean(shares)) if shares else 0.0
