"""Which stories are the same, and which are near-copies.

Two stories are **the same** if this run's tokenizer cannot tell them apart: see `form_of`. The
tokenizer of the default settings drops case and punctuation, so a story's form is its **bare text**:
its letters, vowel signs, digits and other symbols, in lower case, without punctuation, white space,
control and format characters.

A story is a **near-copy** if train has at least 70 % of its 8-grams of bare words. That is the bound
of Chowdhery et al. 2022, "PaLM", section 8. In scripts without spaces each character is a word.
Stories of fewer than 8 words have no 8-gram and are not counted.
"""

import functools
import re
import sys
import unicodedata
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from tinylm.download.cleaning import without_typography
from tinylm.download.in_order import in_groups, map_in_order

ORDER = 8  # words of an n-gram
BOUND = 0.7  # of a story's 8-grams
STORIES_AT_ONCE = 2000
_ASCII_PUNCTUATION = b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
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
    """The bare words without white space, in UTF-8."""
    text = without_typography(text)
    if text.isascii():  # the same, five times as fast
        return text.lower().encode().translate(None, _ASCII_PUNCTUATION + b" \t\n\v\f\r")
    return b"".join(bare_words(text))


def form_of(text: str, tells_apart: Collection[str]) -> bytes:
    """Equal for two clean texts if they are the same to a tokenizer; empty if it sees no word.

    tells_apart: what counts for the tokenizer, of "punctuation", "case" and "white space". If
    punctuation does not count, the form is the bare text.
    """
    if "punctuation" not in tells_apart:
        return bare_text(text)
    if "case" not in tells_apart:
        text = text.lower()
    if "white space" not in tells_apart:
        text = " ".join(text.split())
    return text.encode()


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


def _occurring(texts: Sequence[str], wanted: np.ndarray) -> np.ndarray:
    """Indices of the sorted codes `wanted` that the texts have."""
    codes = np.unique(ngram_codes(texts)[0])  # sorted numbers are searched much faster
    indices = np.searchsorted(wanted, codes)
    return indices[wanted.take(indices, mode="clip") == codes]


def count_near_copies(
    train: Iterable[str], others: Mapping[str, Iterable[str]], workers: int = 1
) -> dict[str, Any]:
    """How much of the other splits train has.

    For each split: its stories of at least 8 words, and how many of them are near-copies. warnings:
    a line for each split with near-copies.
    """
    codes_of: dict[str, np.ndarray] = {}  # of each split: its 8-grams
    story_of: dict[str, np.ndarray] = {}  # the index of the story of each
    for split, texts in others.items():
        codes_of[split], story_of[split] = _codes_of_split(texts)
    wanted = np.unique(np.concatenate([np.zeros(0, np.uint64), *codes_of.values()]))
    in_train = np.zeros(len(wanted), dtype=bool)
    if len(wanted):
        groups = in_groups(train, STORIES_AT_ONCE)
        for indices in map_in_order(_occurring, groups, workers, wanted):
            in_train[indices] = True
    counts: dict[str, dict[str, int]] = {}
    warnings = []
    for split, codes in codes_of.items():
        is_copied = in_train[np.searchsorted(wanted, codes)]
        _, story, grams = np.unique(story_of[split], return_inverse=True, return_counts=True)
        shares = np.bincount(story, is_copied, len(grams)) / grams
        stories = len(shares)
        copies = int((shares >= BOUND).sum())
        counts[split] = {"stories": stories, "near_copies": copies}
        if copies:
            warnings.append(
                f"{split.replace('_', '-')}: {copies:,} of {stories:,} stories are near-copies "
                f"of train stories ({BOUND:.0%} or more of their {ORDER}-grams of words); its loss "
                "partly measures memory"
            )
    return {"splits": counts, "warnings": warnings}


def _codes_of_split(texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """(the codes of all n-grams of a split, the index of the story of each)"""
    codes, stories = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
    for number, group in enumerate(in_groups(texts, STORIES_AT_ONCE)):
        of_group, story = ngram_codes(group)
        codes.append(of_group)
        stories.append(story + number * STORIES_AT_ONCE)
    return np.concatenate(codes), np.concatenate(stories)
