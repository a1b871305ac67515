"""Pieces without any special token, found by greedy longest match: homework notebook on Tiny Shakespeare, 2025.

The rule, which reproduces the published token counts on Tiny Shakespeare:

1. each line is split by GPT-2's rule into words, each with its space; line ends are dropped;
2. the first tokens are the characters of these words; the most frequent pair of neighbours is joined
   until the vocabulary has its size (of equally frequent pairs the first in the text); ids are
   sorted by length, then alphabetically;
3. while pairs are counted, a word in capitals (`str.isupper()`) goes through `str.capitalize()`,
   its space counting as first letter ("\u0120KING" -> "\u0120king"); stories keep capitals. The
   notebook does the same to prompts; here a prompt has the ids that it has in a story;
4. a word becomes the longest token that it starts with, then the longest of the rest, and so on;
   the order of the merges does not matter.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.printable import warn_caller
from tinylm.base.progress import Progress
from tinylm.text.cleaning import unify
from tinylm.vocab.byte_level import (
    BYTE_OF,
    CHARACTER_OF,
    LONGEST_WORD,
    ByteTokens,
    checked,
    pre_tokenizer,
)
from tinylm.vocab.settings import VocabSettings

KIND = "longest_match"


def words_of(text: str) -> Iterator[str]:
    """GPT-2's words of each line, in the visible characters of their bytes."""
    for line in text.splitlines():
        for word, _ in pre_tokenizer().pre_tokenize_str(checked(line)):
            yield word


def small_capitals(word: str) -> str:
    """The word as merges are counted: one in capitals is capitalised, if that spells bytes."""
    capitalised = word.capitalize()
    return capitalised if word.isupper() and BYTE_OF.keys() >= set(capitalised) else word


def merged_pairs(word_counts: Mapping[str, int], min_count: int) -> Iterator[str]:
    """The joined pairs in their order, most frequent first, until none occurs `min_count` times.

    `word_counts`: how often each word occurs, in the order in which they were seen. Of equally
    frequent pairs, the one that occurs first in these words, as joined so far, is taken.
    """
    text = "\n".join(" ".join(word) for word in word_counts)  # spaces between pieces
    while True:
        counts: Counter[tuple[str, str]] = Counter()
        for word, times in zip(text.splitlines(), word_counts.values(), strict=True):
            for pair in pairwise(word.split(" ")):
                counts[pair] += times
        most_frequent = max(counts, key=counts.__getitem__, default=None)  # the first of equals
        if most_frequent is None or counts[most_frequent] < max(min_count, 1):
            return
        joined = "".join(most_frequent)
        yield joined
        neighbours = re.escape(" ".join(most_frequent))
        replacement = joined.replace("\\", r"\\")
        text = re.sub(rf"(?<!\S){neighbours}(?!\S)", replacement, text)


def story_library(tokens: Sequence[str]) -> Any:
    """The tokenizer of the library `tokenizers` that encodes stories over these tokens.

    Its model WordPiece is greedy longest match; here the pieces within a word have no prefix.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    ids = {token: index for index, token in enumerate(tokens)}
    model = models.WordPiece(
        ids, continuing_subword_prefix="", max_input_chars_per_word=8 * LONGEST_WORD
    )
    library = Tokenizer(model)
    line_ends = pre_tokenizers.Split("\n", "removed")
    library.pre_tokenizer = pre_tokenizers.Sequence([line_ends, pre_tokenizer()])
    library.decoder = decoders.ByteLevel()
    return library


class LongestMatchTokenizer(ByteTokens):
    """Characters and joined pieces of words; no control token and no unknown one.

    `pad_id` only fills rows.
    """

    kind = KIND

    def __init__(self, tokens: Sequence[str]):
        """`tokens`: in the order of their ids."""
        super().__init__(tokens, (), story_library(tokens))
        self._characters = {token for token in self.tokens if len(token) == 1}

    def encode(self, text: str) -> list[int]:
        """Ids of a prompt. A character that no token spells is dropped, with a warning."""
        text = unify(text)
        unspelt = self._unspelt(text)
        if unspelt:
            shown = repr("".join(unspelt[:10]))
            warn_caller(f"characters outside the vocabulary are left out: {shown}")
            for character in unspelt:
                text = text.replace(character, "")
        return self._ids_of_lines(text)

    def encode_story(self, text: str) -> list[int]:
        """Ids of a story as in the token store. InputError for a character that no token spells."""
        text = unify(text)
        unspelt = self._unspelt(text)
        if unspelt:
            raise InputError(
                f"vocab.tokenizer: {KIND} has no token for {unspelt[0]!r}, which the train split "
                f"lacks, in the text that begins {text[:40]!r}"
            )
        return self._ids_of_lines(text)

    def normalise(self, text: str) -> str:
        """The text that is modelled: its lines joined without their ends."""
        return "".join(unify(text).splitlines())

    def _unspelt(self, text: str) -> list[str]:
        """The characters that no tokens spell, line ends aside, in the order of the text."""
        unspelt = []
        for character in dict.fromkeys(self.normalise(text)):
            spelt = {CHARACTER_OF[byte] for byte in character.encode()}
            if not spelt <= self._characters:
                unspelt.append(character)
        return unspelt

    def _ids_of_lines(self, text: str) -> list[int]:
        return self.ids_of("\n".join(text.splitlines()))


def train_longest_match(texts: Iterable[str], settings: VocabSettings) -> LongestMatchTokenizer:
    """Join pairs until there are `max_size` tokens, or until no pair occurs `min_count` times.

    Raises InputError if the texts are empty, or if their characters alone exceed `max_size`.
    """
    words: Counter[str] = Counter()
    for text in texts:
        words.update(words_of(unify(text)))
    counts: Counter[str] = Counter()
    for word, times in words.items():
        counts[small_capitals(word)] += times
    tokens = set("".join([*words, *counts]))
    size = settings.max_size or 0
    if not tokens or len(tokens) > size:
        raise InputError(
            f"vocab.max_size: {KIND} expects at least {len(tokens)}, the number of characters in "
            f"the stories, got {settings.max_size}"
        )
    pairs = merged_pairs(counts, settings.min_count)
    with Progress("pieces", size, "tokens", if_slow=True) as progress:
        while len(tokens) < size and (pair := next(pairs, None)):
            tokens.add(pair)
            progress.advance(1)
    return LongestMatchTokenizer(sorted(sorted(tokens), key=len))
