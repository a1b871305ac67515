"""Pieces without any special token, found by greedy longest match: homework notebook (E), 2025.

The rule, which reproduces the published token counts on Tiny Shakespeare:

1. each line is split by GPT-2's rule into words, each with its space; line ends are dropped;
2. the first tokens are the characters of these words; then the most frequent pair of neighbours is
   joined, repeatedly (of equally frequent pairs the first in the text), until the vocabulary has
   its size; ids are sorted by length, then alphabetically;
3. while pairs are counted, and in prompts, a word in capitals (`str.isupper()`) goes through
   `str.capitalize()`, its space counting as first letter ("\u0120KING" -> "\u0120king"); stories
   keep capitals;
4. a word becomes the longest token that it starts with, then the longest of the rest, and so on;
   the order of the merges does not matter.
"""

import json
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from tinylm.base.config import InputError
from tinylm.base.files import atomic_write
from tinylm.vocab.byte_level import (
    CHARACTER_OF,
    ByteTokens,
    chunks,
    pre_tokenizer,
    whole_text,
)
from tinylm.vocab.settings import VocabSettings

TYPE = "longest_match"
CACHE_WORDS = 1 << 17
Pair = tuple[str, str]


def words_of(text: str) -> Iterator[str]:
    """GPT-2's words of each line, in the visible characters of their bytes."""
    for line in text.splitlines():
        for chunk in chunks(line):
            for word, _ in pre_tokenizer().pre_tokenize_str(chunk):
                yield word


def small_capitals(word: str) -> str:
    """The word as merges are counted: one in capitals is capitalised."""
    return word.capitalize() if word.isupper() else word


class _Pairs:
    """Words in pieces, with the count of every pair of neighbours and the words that have it."""

    def __init__(self, word_counts: Mapping[str, int]):
        self.pieces = [list(word) for word in word_counts]
        self.times = list(word_counts.values())
        self.counts: Counter[Pair] = Counter()
        self.words: dict[Pair, set[int]] = defaultdict(set)
        for word in range(len(self.pieces)):
            self._add(word)

    def _add(self, word: int) -> None:
        for pair in pairwise(self.pieces[word]):
            self.counts[pair] += self.times[word]
            self.words[pair].add(word)

    def _remove(self, word: int) -> None:
        for pair in pairwise(self.pieces[word]):
            self.counts[pair] -= self.times[word]
            self.words[pair].discard(word)
            if not self.counts[pair]:
                del self.counts[pair]

    def join(self, pair: Pair) -> None:
        """Join the pair wherever it occurs, from the left."""
        for word in list(self.words[pair]):
            self._remove(word)
            joined: list[str] = []
            previous = self.pieces[word]
            i = 0
            while i < len(previous):
                width = 2 if tuple(previous[i : i + 2]) == pair else 1
                joined.append("".join(previous[i : i + width]))
                i += width
            self.pieces[word] = joined
            self._add(word)

    def first_position(self, pair: Pair) -> tuple[int, int]:
        """(word, position in it) where the pair occurs first."""
        word = min(self.words[pair])
        return word, list(pairwise(self.pieces[word])).index(pair)


def merged_pairs(word_counts: Mapping[str, int], min_count: int) -> Iterator[str]:
    """The joined pairs in their order, most frequent first, until none occurs `min_count` times.

    `word_counts`: how often each word occurs, in the order in which they were seen. Of equally
    frequent pairs, the one that occurs first in these words, as joined so far, is taken.
    """
    pairs = _Pairs(word_counts)
    while pairs.counts:
        most = max(pairs.counts.values())
        if most < min_count:
            return
        tied = [pair for pair, count in pairs.counts.items() if count == most]
        best = min(tied, key=pairs.first_position)
        yield "".join(best)
        pairs.join(best)


class LongestMatchTokenizer(ByteTokens):
    """Characters and joined pieces of words; no control token and no unknown one.

    `pad_id` only fills rows.
    """

    kind = TYPE
    sos_id = eos_id = None
    pad_id = 0

    def __init__(self, tokens: Sequence[str]):
        """`tokens`: in the order of their ids."""
        super().__init__(tokens, specials=())
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        self._longest = max(map(len, self.tokens))
        self._cache: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Ids of a prompt: words in capitals are capitalised.

        A character that no token spells is dropped, with a warning.
        """
        text = whole_text(text)
        unspelt = self._unspelt(text)
        if unspelt:
            shown = " ".join(repr(character)[1:-1] for character in unspelt[:10])
            warnings.warn(f"characters outside the vocabulary are left out: {shown}", stacklevel=2)
            text = text.translate(dict.fromkeys(map(ord, unspelt)))
        return self._match(map(self._as_prompted, words_of(text)))

    def encode_story(self, text: str) -> list[int]:
        """Ids of a story as in the token store. InputError for a character that no token spells."""
        text = whole_text(text)
        unspelt = self._unspelt(text)
        if unspelt:
            characters = sum(len(token) == 1 for token in self.tokens)
            raise InputError(
                f"vocab.tokenizer = {TYPE}: no token spells {unspelt[0]!r}, in the text that "
                f"begins {text[:40]!r}; allowed: the {characters} characters of the train split"
            )
        return self._match(words_of(text))

    def normalise(self, text: str) -> str:
        """The text that is modelled: its lines joined without their ends."""
        return "".join(whole_text(text).splitlines())

    def save(self, path: str | Path) -> None:
        """Write tokenizer.json, in a format of our own: no library matches in this way."""
        with atomic_write(path) as handle:
            json.dump({"type": TYPE, "tokens": self.tokens}, handle, ensure_ascii=False, indent=0)
            handle.write("\n")

    def _unspelt(self, text: str) -> list[str]:
        """The characters that no tokens spell, line ends aside, in the order of the text."""
        unspelt = []
        for character in dict.fromkeys(self.normalise(text)):
            bytes_of = character.encode()
            if any(CHARACTER_OF[byte] not in self._ids for byte in bytes_of):
                unspelt.append(character)
        return unspelt

    def _as_prompted(self, word: str) -> str:
        """Capitalised, if it is ASCII and the vocabulary has the resulting characters."""
        bare = word.lstrip(CHARACTER_OF[ord(" ")])
        small = small_capitals(word) if bare and bare.isascii() else word
        return small if self._ids.keys() >= set(small) else word

    def _match(self, words: Iterable[str]) -> list[int]:
        ids: list[int] = []
        for word in words:
            if word not in self._cache:
                if len(self._cache) >= CACHE_WORDS:
                    self._cache.clear()
                self._cache[word] = self._longest_matches(word)
            ids += self._cache[word]
        return ids

    def _longest_matches(self, word: str) -> list[int]:
        """The longest token at each position; every character is a token, so there is one."""
        ids = []
        start = 0
        while start < len(word):
            end = min(start + self._longest, len(word))
            while word[start:end] not in self._ids:
                end -= 1
            ids.append(self._ids[word[start:end]])
            start = end
        return ids


def _order(token: str) -> tuple[int, str]:
    return len(token), token


def train_longest_match(texts: Iterable[str], settings: VocabSettings) -> LongestMatchTokenizer:
    """Join pairs until there are `max_size` tokens, or until no pair occurs `min_count` times.

    Raises InputError if the texts are empty, or if their characters alone exceed `max_size`.
    """
    words = Counter(word for text in texts for word in words_of(whole_text(text)))
    counts: Counter[str] = Counter()
    for word, times in words.items():
        counts[small_capitals(word)] += times
    tokens = set("".join([*words, *counts]))
    size = settings.max_size or 0
    if not tokens or len(tokens) > size:
        raise InputError(
            f"vocab.max_size = {settings.max_size}; allowed with tokenizer: {TYPE}: stories with "
            f"text, and at least their {len(tokens)} characters"
        )
    pairs = merged_pairs(counts, settings.min_count)
    while len(tokens) < size and (pair := next(pairs, None)):
        tokens.add(pair)
    return LongestMatchTokenizer(sorted(tokens, key=_order))
