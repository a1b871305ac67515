"""Pieces without any special token, found by greedy longest match: the tokenizer of homework notebook (E), 2025.

The rule, which reproduces the published token counts on Tiny Shakespeare:

1. each line is split by GPT-2's rule into words, each with its space (`byte_level`); line ends are dropped;
2. the first tokens are the characters of these words; then the most frequent pair of neighbours is joined, repeatedly
   (of equally frequent pairs the first in the text), until the vocabulary has its size; ids are sorted by length,
   then alphabetically;
3. while pairs are counted, and in prompts, a word in capitals (`str.isupper()`) goes through
   `str.capitalize()`, its space counting as first letter ("\u0120KING" -> "\u0120king"); stories keep capitals;
4. a word becomes the longest token that it starts with, then the longest of the rest, and so on; the order of the
   merges does not matter.
"""

import heapq
import json
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from tinylm.base.config import InputError
from tinylm.base.files import atomic_write
from tinylm.vocab.byte_level import (
    BYTE_OF,
    CHARACTER_OF,
    ByteTokens,
    chunks,
    pre_tokenizer,
    whole_text,
)
from tinylm.vocab.settings import VocabSettings

Pair = tuple[str, str]


class _Words:
    """The words in pieces, with every pair's count and the words that contain it."""

    def __init__(self, counts: Mapping[str, int]):
        self.pieces = [list(word) for word in counts]
        self.times = list(counts.values())
        self.count: dict[Pair, int] = defaultdict(int)
        self.places: dict[Pair, set[int]] = defaultdict(set)
        for word in range(len(self.pieces)):
            self._note(word, +1)

    def _note(self, word: int, sign: int) -> set[Pair]:
        """Add or subtract the pairs of one word; returns them."""
        pieces = self.pieces[word]
        pairs = list(pairwise(pieces))
        for pair in pairs:
            self.count[pair] += sign * self.times[word]
            if sign > 0:
                self.places[pair].add(word)
            else:
                self.places[pair].discard(word)
        return set(pairs)

    def join(self, pair: Pair) -> set[Pair]:
        """Join the pair wherever it occurs, from the left; returns the pairs whose counts have changed."""
        changed: set[Pair] = set()
        for word in list(self.places[pair]):
            changed |= self._note(word, -1)
            old, new = self.pieces[word], []
            at = 0
            while at < len(old):
                width = 2 if tuple(old[at : at + 2]) == pair else 1
                new.append("".join(old[at : at + width]))
                at += width
            self.pieces[word] = new
            changed |= self._note(word, +1)
        return changed

    def first_place(self, pair: Pair) -> tuple[int, int]:
        """(word, place in it) where the pair occurs first."""
        word = min(self.places[pair])
        pieces = self.pieces[word]
        return word, next(at for at, here in enumerate(pairwise(pieces)) if here == pair)


def merged_pairs(counts: Mapping[str, int], min_count: int) -> Iterator[str]:
    """The joined pairs in the order of their joining, most frequent first, until none occurs `min_count` times.

    `counts`: how often each word occurs, in the order in which they were seen. Of equally frequent pairs, the one that
    occurs first in these words, as joined so far, is taken.
    """
    words = _Words(counts)
    heap = [(-count, pair) for pair, count in words.count.items()]
    heapq.heapify(heap)
    while heap:
        most = -heap[0][0]
        if most < min_count:
            return
        tied: set[Pair] = set()
        while (
            heap and -heap[0][0] == most
        ):  # an entry is out of date if the count has changed since
            _, pair = heapq.heappop(heap)
            if words.count[pair] == most:
                tied.add(pair)
        if tied:
            best = min(tied, key=words.first_place) if len(tied) > 1 else tied.pop()
            yield "".join(best)
            for pair in words.join(best) | tied:
                if words.count[pair]:
                    heapq.heappush(heap, (-words.count[pair], pair))


TYPE = "longest_match"
CACHE_WORDS = 1 << 17
LONG_WORD = 100  # characters; the matches of longer words are not cached


def words_of(text: str) -> Iterator[str]:
    """GPT-2's words of each line, in the visible characters of their bytes."""
    part = pre_tokenizer().pre_tokenize_str
    for line in text.splitlines():
        for chunk in chunks(line):
            yield from (word for word, _ in part(chunk))


def small_capitals(word: str) -> str:
    """The word as merges are counted: one in capitals is capitalised."""
    return word.capitalize() if word.isupper() else word


class LongestMatchTokenizer(ByteTokens):
    """Characters and joined pieces of words; neither control tokens nor an unknown one. `pad_id` only fills rows."""

    kind = TYPE
    sos_id = eos_id = None
    pad_id = 0

    def __init__(self, tokens: Sequence[str]):
        """`tokens`: in the order of their ids."""
        super().__init__(tokens, specials=())
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        self._longest = max(map(len, self.tokens))
        self._found: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Ids of a prompt: words in capitals are capitalised; a character that no token spells is dropped, with a
        warning."""
        text = whole_text(text)
        strange = self._strange(text)
        if strange:
            shown = " ".join(repr(character)[1:-1] for character in strange[:10])
            warnings.warn(f"characters outside the vocabulary are left out: {shown}", stacklevel=2)
            text = text.translate(dict.fromkeys(map(ord, strange)))
        return self._match(map(self._as_prompted, words_of(text)))

    def encode_story(self, text: str) -> list[int]:
        """Ids of a story as in the token store. InputError for a character that no token spells."""
        text = whole_text(text)
        strange = self._strange(text)
        if strange:
            known = sum(len(token) == 1 for token in self.tokens)
            raise InputError(
                f"vocab.tokenizer = {TYPE}: no token spells {strange[0]!r}, in the text that begins {text[:40]!r}; "
                f"allowed: the {known} characters of the train split"
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

    @classmethod
    def from_content(cls, content: dict, path: str | Path) -> "LongestMatchTokenizer":
        """From a tokenizer file's content. Raises InputError if `save` would not have written it."""
        tokens = content.get("tokens")
        if (
            not isinstance(tokens, list)
            or not tokens
            or not all(isinstance(t, str) and t for t in tokens)
        ):
            raise InputError(
                f"{path}: allowed under 'tokens': a list of texts; run dvc repro -f -s vocab"
            )
        characters = set("".join(tokens))
        if not characters <= BYTE_OF.keys() & set(tokens):
            raise InputError(
                f"{path}: a token contains a character that is not a token; run dvc repro -f -s vocab"
            )
        if tokens != sorted(set(tokens), key=_order):
            raise InputError(
                f"{path}: tokens are not sorted by length, then alphabet; run dvc repro -f -s vocab"
            )
        return cls(tokens)

    def _strange(self, text: str) -> list[str]:
        """The characters that no tokens spell, line ends aside, in the order of the text."""
        text = self.normalise(text)
        unknown = {
            c for c in set(text) if not all(CHARACTER_OF[byte] in self._ids for byte in c.encode())
        }
        return [c for c in dict.fromkeys(text) if c in unknown] if unknown else []

    def _as_prompted(self, word: str) -> str:
        """Capitalised, unless a character stands for a byte that is not a letter, or the result is not text."""
        bare = word.lstrip(CHARACTER_OF[ord(" ")])
        small = small_capitals(word) if bare and bare.isascii() else word
        return small if self._ids.keys() >= set(small) else word

    def _match(self, words: Iterable[str]) -> list[int]:
        ids: list[int] = []
        for word in words:
            found = self._found.get(word)
            if found is None:
                found = self._longest_matches(word)
                if len(word) < LONG_WORD:
                    if len(self._found) >= CACHE_WORDS:
                        self._found.clear()
                    self._found[word] = found
            ids += found
        return ids

    def _longest_matches(self, word: str) -> list[int]:
        """The longest token at each place; all characters of the word are tokens, so there always is one."""
        found = []
        start = 0
        while start < len(word):
            end = min(start + self._longest, len(word))
            while word[start:end] not in self._ids:
                end -= 1
            found.append(self._ids[word[start:end]])
            start = end
        return found


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
    tokens = {character for word in [*words, *counts] for character in word}
    size = settings.max_size or 0
    if not tokens or len(tokens) > size:
        allowed = (
            f"at least {len(tokens)}, the characters of the train split"
            if tokens
            else "stories with text"
        )
        raise InputError(
            f"vocab.max_size = {settings.max_size}; allowed with tokenizer: {TYPE}: {allowed}"
        )
    pairs = merged_pairs(counts, settings.min_count)
    while len(tokens) < size and (pair := next(pairs, None)):
        tokens.add(pair)
    return LongestMatchTokenizer(sorted(tokens, key=_order))
