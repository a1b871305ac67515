"""Which stories are the same, and which are near-copies.

Two stories are **the same** if their **bare texts** are equal: their letters, vowel signs, digits and
other symbols, in lower case, without punctuation, white space, control and format characters. Stories
that have only punctuation, such as brackets, are the same if their clean texts are equal.

A story is a **near-copy** if train has at least 70 % of its 8-grams of bare words. That is the bound
of Chowdhery et al. 2022, "PaLM", section 8. In scripts without spaces each character is a word.
Stories of fewer than 8 words have no 8-gram and are not counted.
"""

import functools
import re
import string
import sys
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from tinylm.download.cleaning import without_typography
from tinylm.download.in_order import in_groups, map_in_order

ORDER = 8  # words of an n-gram
BOUND = 0.7  # of a story's 8-grams
STORIES_AT_ONCE = 2000
UNSPACED = re.compile(  # Thai to Lao, Myanmar, Khmer, Chinese and Japanese
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


@functools.cache
def _deleted_or_space() -> dict[int, str]:
    """Characters that are no part of a bare word, as a table for `str.translate`."""
    table = dict.fromkeys(b"$+<=>^`|~", "")
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if category[0] == "P" or category == "Cf":
            table[code] = ""
        elif category[0] == "Z" or category == "Cc":
            table[code] = " "
    return table


def bare_words(text: str) -> list[bytes]:
    """The words by which stories are compared, in UTF-8."""
    text = without_typography(text)
    if text.isascii():  # the same, ten times as fast
        return text.lower().encode().translate(None, string.punctuation.encode()).split()
    lower = "".join(map(str.lower, text))  # letter by letter: no rule of the final sigma
    bare = unicodedata.normalize("NFC", lower.translate(_deleted_or_space()))
    return spaced(bare).encode().split()


def spaced(text: str) -> str:
    """The text with each character of a script without spaces as a word."""
    return text if text.isascii() else UNSPACED.sub(r" \g<0> ", text)


def bare_text(text: str) -> bytes:
    """The bare words without white space, in UTF-8."""
    return b"".join(bare_words(text))


def ngram_codes(text: str) -> np.ndarray:
    """A 32-bit checksum of each 8-gram of bare words in a text."""
    words = bare_words(text)
    starts = range(len(words) - ORDER + 1)
    codes = [zlib.crc32(b" ".join(words[start : start + ORDER])) for start in starts]
    return np.array(codes, np.uint32)


def _occurring(texts: Sequence[str], wanted: np.ndarray) -> np.ndarray:
    """Indices of the sorted codes `wanted` that the texts have."""
    codes = np.unique(np.concatenate([ngram_codes(text) for text in texts]))
    indices = np.searchsorted(wanted, codes)
    return indices[wanted.take(indices, mode="clip") == codes]


def _are_in_train(train: Iterable[str], codes: np.ndarray, workers: int) -> np.ndarray:
    """Whether train has each of the sorted codes.  (codes,) -> (codes,) bool"""
    in_train = np.zeros(len(codes), dtype=bool)
    if len(codes):
        groups = in_groups(train, STORIES_AT_ONCE)
        for indices in map_in_order(_occurring, groups, workers, codes):
            in_train[indices] = True
    return in_train


def count_near_copies(
    train: Iterable[str], others: Mapping[str, Iterable[str]], workers: int = 1
) -> dict[str, Any]:
    """How much of the other splits train has.

    For each split: its stories of at least 8 words, and how many of them are near-copies. warnings:
    a line for each split with near-copies.
    """
    codes_of = {split: list(map(ngram_codes, texts)) for split, texts in others.items()}
    of_stories = [np.zeros(0, np.uint32), *chain.from_iterable(codes_of.values())]
    codes = np.unique(np.concatenate(of_stories))
    in_train = _are_in_train(train, codes, workers)
    counts: dict[str, dict[str, int]] = {}
    warnings = []
    for split, stories in codes_of.items():
        long_enough = [story for story in stories if len(story)]
        shares = [in_train[np.searchsorted(codes, story)].mean() for story in long_enough]
        copies = sum(bool(share >= BOUND) for share in shares)
        counts[split] = {"stories": len(shares), "near_copies": copies}
        if copies:
            warnings.append(
                f"{split.replace('_', '-')}: {copies:,} of {len(shares):,} stories are near-copies "
                f"of train stories ({BOUND:.0%} or more of their {ORDER}-grams of words); its loss "
                "partly measures memory"
            )
    return {"splits": counts, "warnings": warnings}
