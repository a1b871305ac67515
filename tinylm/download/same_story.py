"""Which stories are the same, and which are near-copies: one definition for all stages.

Two stories are **the same** if their bare words are: the words in lower case, letter by letter,
without punctuation, white space, control and format characters. That is what the coarsest tokenizer
cannot tell apart; letters, vowel signs, digits and symbols stay. The split does not depend on the
tokenizer, so runs with different tokenizers have the same evaluation stories.

A story is a **near-copy** if train has at least 70 % of its 8-grams of bare words. That is the bound
of Chowdhery et al. 2022, "PaLM", section 8. In scripts without spaces each character is a word.
Stories of fewer than 8 words have no 8-gram and are not counted.
"""

import functools
import re
import sys
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from tinylm.download.cleaning import without_typography
from tinylm.download.in_order import in_groups, map_in_order

ORDER = 8  # words of an n-gram
BOUND = 0.7  # of a story's 8-grams
STORIES_AT_ONCE = 2000
_ASCII_PUNCTUATION = b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_AFTER_BEGINNING = np.uint64(64 - 24)  # bits of a code after its beginning
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no n-gram code loses its first words
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
        return text.lower().encode().translate(None, _ASCII_PUNCTUATION).split()
    lower = "".join(map(str.lower, text))  # letter by letter: no rule of the final sigma
    bare = unicodedata.normalize("NFC", lower.translate(_deleted_or_space()))
    return spaced(bare).encode().split()


def spaced(text: str) -> str:
    """The text with each character of a script without spaces as a word."""
    return text if text.isascii() else UNSPACED.sub(r" \g<0> ", text)


def bare_text(text: str) -> bytes:
    """Equal for two stories exactly if they are the same story."""
    text = without_typography(text)
    if text.isascii():  # the same, five times as fast
        return text.lower().encode().translate(None, _ASCII_PUNCTUATION + b" \t\n\v\f\r")
    return b"".join(bare_words(text))


def ngram_codes(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """(64-bit codes (N,) of the n-grams within each text, the index (N,) of its text)."""
    words = list(map(bare_words, texts))
    codes = np.fromiter(map(zlib.crc32, chain.from_iterable(words)), np.uint64)
    text_of_word = np.repeat(np.arange(len(words)), list(map(len, words)))
    count = max(len(codes) - ORDER + 1, 0)
    grams = np.zeros(count, np.uint64)
    for offset in range(ORDER):
        grams = grams * _MULTIPLIER + codes[offset : offset + count]
    first = text_of_word[:count]
    is_inside = first == text_of_word[ORDER - 1 :][:count]
    return grams[is_inside], first[is_inside]


def _occurring(texts: Sequence[str], wanted: np.ndarray, beginnings: np.ndarray) -> np.ndarray:
    """Indices of the sorted codes `wanted` that the texts have.

    beginnings: whether a wanted code begins with these bits; most codes need no search then.
    """
    codes, _ = ngram_codes(texts)
    codes = codes[beginnings[codes >> _AFTER_BEGINNING]]
    indices = np.searchsorted(wanted, codes)
    return np.unique(indices[wanted.take(indices, mode="clip") == codes])


def count_near_copies(
    train: Iterable[str], others: Mapping[str, Iterable[str]], workers: int = 1
) -> dict[str, Any]:
    """How much of the other splits train has.

    For each split: its stories of at least 8 words, and how many of them are near-copies. warnings:
    a line for each split with near-copies.
    """
    tables = [pd.DataFrame({"split": [], "story": [], "code": np.zeros(0, np.uint64)})]
    for split, texts in others.items():
        for number, group in enumerate(in_groups(texts, STORIES_AT_ONCE)):
            codes, story = ngram_codes(group)
            story += number * STORIES_AT_ONCE
            tables.append(pd.DataFrame({"split": split, "story": story, "code": codes}))
    grams = pd.concat(tables)
    wanted, index = np.unique(grams["code"], return_inverse=True)
    beginnings = np.zeros(1 << 24, dtype=bool)
    beginnings[wanted >> _AFTER_BEGINNING] = True
    in_train = np.zeros(len(wanted), dtype=bool)
    groups = in_groups(train, STORIES_AT_ONCE)
    if len(wanted):
        for indices in map_in_order(_occurring, groups, workers, wanted, beginnings):
            in_train[indices] = True
    grams["in_train"] = in_train[index]
    counts: dict[str, dict[str, int]] = {}
    warnings = []
    for split in others:
        shares = grams[grams["split"] == split].groupby("story")["in_train"].mean()
        copies = int((shares >= BOUND).sum())
        counts[split] = {"stories": len(shares), "near_copies": copies}
        if copies:
            warnings.append(
                f"{split.replace('_', '-')}: {copies:,} of {len(shares):,} stories are near-copies "
                f"of train stories ({BOUND:.0%} or more of their {ORDER}-grams of words); its loss "
                "partly measures memory"
            )
    return {"splits": counts, "warnings": warnings}
