"""Word-level tokens: words <-> ids, over the words that `tinylm.text.words` splits a text into."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.parallel import in_groups, map_in_order
from tinylm.text.words import WORD_SEPARATORS, Splitter
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.tokenizer import Tokenizer

SPECIALS = ("<sos>", "<eos>", "<pad>", "<unk>")
SOS_ID, EOS_ID, PAD_ID, UNK_ID = range(4)
STORIES_AT_ONCE = 2000  # that one process counts

_OPENING = frozenset("([{$\u00bf\u00a1")
_CLOSING = frozenset(".,!?;:)]}%\u2026\u2019\u201d")
# Quotation marks, and what closes each: English, German, French and Spanish.
_QUOTES = {
    '"': '"', "'": "'", "\u2018": "\u2019", "\u201c": "\u201d", "\u201e": "\u201c\u201d",
    "\u201a": "\u2018\u2019", "\u00ab": "\u00bb", "\u00bb": "\u00ab", "\u2039": "\u203a", "\u203a": "\u2039",
}  # fmt: skip
_BETWEEN_WORDS = frozenset("-/" + WORD_SEPARATORS)  # in "5-year-old" and "and/or"


class WordTokenizer(Tokenizer):
    """Words <-> ids; ids 0-3 are `<sos> <eos> <pad> <unk>`, then the words, most frequent first.

    A word that the vocabulary lacks is `<unk>`. The saved file is in the format of Hugging Face
    `tokenizers` and gives the same ids there.
    """

    sos_id, eos_id, pad_id, unk_id = SOS_ID, EOS_ID, PAD_ID, UNK_ID
    kind = "words"
    lossless = False  # a word may be unknown

    def __init__(self, vocabulary: Iterable[str], splitter: Splitter):
        """`vocabulary`: the words in the order of their ids, without the special tokens."""
        super().__init__([*SPECIALS, *vocabulary], range(len(SPECIALS)))
        self.splitter = splitter
        self._ids = {token: index for index, token in enumerate(self.tokens)}

    def split(self, text: str) -> list[str]:
        """The text's words."""
        return self.splitter(text)

    def encode(self, text: str) -> list[int]:
        """Ids of the text's words, no special token added."""
        get = self._ids.get
        return [get(word, UNK_ID) for word in self.split(text)]

    def normalise(self, text: str) -> str:
        """The words joined by one space: the text that is modelled."""
        return " ".join(self.split(text))

    def unknown_words(self, text: str) -> list[str]:
        """The text's words that the vocabulary lacks, each as often as it occurs."""
        return [word for word in self.split(text) if word not in self._ids]

    def word_of(self, index: int) -> str:
        """The word of an id, for look-up among word vectors; "" for a special token."""
        return "" if index in self.specials else self.tokens[index]

    def decode(self, ids: Iterable[int], unknown: Iterable[str] = ()) -> str:
        """Readable text without `<sos> <eos> <pad>`; with `keep`, marks are put on their words.

        unknown: the words to write for each `<unk>`, in order.
        """
        hidden = (SOS_ID, EOS_ID, PAD_ID)
        written = iter(unknown)
        words = []
        for index in ids:
            if index not in hidden:
                word = self.tokens[index]
                words.append(next(written, word) if index == UNK_ID else word)
        if self.splitter.punctuation == "keep":
            return _join_words(words)
        return " ".join(words)

    def rule(self) -> dict[str, Any]:
        """The kind, and how text is split into words."""
        splitter = self.splitter
        return {
            "kind": self.kind,
            "lower_case": splitter.lower_case,
            "punctuation": splitter.punctuation,
        }

    def library(self) -> Any:
        """The tokenizer of the library `tokenizers` with the same ids.

        The special tokens are plain entries: as `added_tokens` they would be found in raw text.
        """
        import tokenizers

        model = tokenizers.models.WordLevel(self._ids, unk_token=SPECIALS[UNK_ID])
        library = tokenizers.Tokenizer(model)
        library.normalizer = self.splitter.normalizer
        library.pre_tokenizer = self.splitter.pre_tokenizer
        return library


def _join_words(words: list[str]) -> str:
    """Words and marks with the spaces of English, and quotation marks on what they enclose.

    A mark that can open and close, such as the straight ones, closes what it opened. A hyphen or slash
    between two words joins them.
    """
    text = ""
    glue = True  # whether the next word follows without a space
    ends: list[str] = []  # what closes each open quotation
    for word, following in zip(words, [*words[1:], ""]):
        joins = word in _BETWEEN_WORDS and _is_letter(text[-1:]) and _is_letter(following[:1])
        closes_quote = any(word in end for end in ends)
        opens_quote = word in _QUOTES and not closes_quote
        while closes_quote and word not in ends.pop():
            pass  # one inside it was never closed
        if opens_quote:
            ends.append(_QUOTES[word])
        closes = closes_quote or word in _CLOSING
        text += word if glue or closes or joins else " " + word
        glue = joins or opens_quote or word in _OPENING
    return text


def _is_letter(character: str) -> bool:
    """Whether it is a letter, vowel sign or digit."""
    return character != "" and unicodedata.category(character)[0] in "LMN"


def count_words(texts: Iterable[str], settings: VocabSettings, workers: int = 1) -> Counter[str]:
    """Count the words of the texts, in several processes."""
    counts: Counter[str] = Counter()
    groups = in_groups(texts, STORIES_AT_ONCE)
    for group_counts in map_in_order(_count_group, groups, workers, settings):
        counts.update(group_counts)
    return counts


def _count_group(texts: list[str], settings: VocabSettings) -> Counter[str]:
    splitter = Splitter(settings.lower_case, settings.punctuation)
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(splitter(text))
    return counts


def build_tokenizer(counts: Counter[str], settings: VocabSettings) -> WordTokenizer:
    """Vocabulary of the words with at least `min_count`, at most `max_size` without special tokens.

    Ordered by count descending, ties by word. Raises InputError if no word is left.
    """
    words = [word for word, count in counts.items() if count >= settings.min_count]
    if not words:
        most = max(counts.values(), default=0)
        raise InputError(
            f"vocab.min_count: expected at most {most}, the count of the most frequent word, "
            f"got {settings.min_count}"
        )
    words.sort(key=lambda word: (-counts[word], word))
    splitter = Splitter(settings.lower_case, settings.punctuation)
    return WordTokenizer(words[: settings.max_size], splitter)
