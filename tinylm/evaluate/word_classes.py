"""The words of a row of tokens, their classes, and their grammatical relations."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from tinylm.storybook.classes import look_up, word_classes
from tinylm.storybook.corpus import normalise
from tinylm.vocab.tokenizer import Tokenizer

_SPEECH = (
    "said", "asked", "answered", "replied", "cried", "called", "whispered", "shouted", "exclaimed"
)  # fmt: skip
_NOMINAL = ("article", "determiner", "noun", "name", "pronoun")
_APOSTROPHES = "'\u2019"
_ENDS = (".", "!", "?", "\u2026")  # of sentences
_CLOSING = "\"'\u201d\u2019)]}"


class Word(NamedTuple):
    """One word of a row.

    text: lower case, without marks around it, "" if unknown.
    token: its index in the row, -1 if it is several tokens.
    name: its class, "" if it has none.
    marked: whether a punctuation mark or the row's start is right before it.
    """

    text: str
    token: int
    name: str
    marked: bool


class Row(NamedTuple):
    """A row of ids read as words. text, marks, starts have one value per token.

    text: whether it holds text, so is not a special token.
    marks: whether it is or ends with a punctuation mark.
    starts: the index of its sentence's first token; -1 in the row's first sentence, at that token
    itself and at marks.
    is_told: whether the storybook's generator told the word classes.
    """

    words: list[Word]
    text: list[bool]
    marks: list[bool]
    starts: list[int]
    is_told: bool


class WordReader:
    """Reads rows of ids as words with classes.

    The classes of storybook rows come from the generator, others are looked up. Words are built
    from pairs of tokens: two belong to one word where letters, digits or apostrophes meet without
    a space.
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._silent = {*tokenizer.specials, tokenizer.unk_id}
        self._texts: dict[int, str] = {}
        self._joined: dict[tuple[int, int], bool] = {}

    def read(self, ids: Sequence[int]) -> Row:
        """The row as words with classes."""
        ids = [int(token) for token in ids]
        pieces = [self.text_of(token) for token in ids]
        words = self._words(ids, pieces)
        texts = [word.text for word in words]
        names = look_up(texts)
        marked = [word.marked for word in words]
        told = word_classes([normalise(text) for text in texts]) if all(texts) else None
        if told:
            names, before_marks = told
            marked = [one or other for one, other in zip(marked, before_marks, strict=True)]
        words = [
            word._replace(name=name, marked=mark)
            for word, name, mark in zip(words, names, marked, strict=True)
        ]
        marks, starts = _sentences(pieces)
        has_text = [token not in self._silent for token in ids]
        return Row(words, has_text, marks, starts, told is not None)

    def _words(self, ids: list[int], pieces: list[str]) -> list[Word]:
        """The words, without classes; marks and special tokens are none."""
        groups = self._groups(ids)
        words = []
        marked = True
        for _, indices in itertools.groupby(range(len(ids)), key=lambda index: groups[index]):
            tokens = list(indices)
            first = tokens[0]
            whole = "".join(pieces[index] for index in tokens).strip()
            core = _core(whole)
            before, _, after = whole.partition(core) if core else (whole, "", "")
            is_unknown = ids[first] == self._tokenizer.unk_id
            is_special = ids[first] in self._silent and not is_unknown
            marked = marked or bool(before) or is_special
            if core or is_unknown:
                token = first if len(tokens) == 1 else -1
                words.append(Word(core.lower(), token, "", marked))
                marked = bool(after)
        return words

    def text_of(self, token: int) -> str:
        """The text of one token, "" for a special or unknown one."""
        if token not in self._texts:
            is_silent = token in self._silent
            self._texts[token] = "" if is_silent else self._tokenizer.decode([token])
        return self._texts[token]

    def _groups(self, ids: list[int]) -> list[int]:
        """For each token the number of the word, mark or special token that it belongs to."""
        groups = []
        number = -1
        for index, token in enumerate(ids):
            if not index or not self._are_joined(ids[index - 1], token):
                number += 1
            groups.append(number)
        return groups

    def _are_joined(self, left: int, right: int) -> bool:
        """Whether the last character of one token and the first of the next belong to a word."""
        if left in self._silent or right in self._silent:
            return False
        if (left, right) not in self._joined:
            start = self.text_of(left)
            both = self._tokenizer.decode([left, right])
            joined = True
            if start and both.startswith(start):
                meeting = both[len(start) - 1 : len(start) + 1]
                joined = all(c.isalnum() or c in _APOSTROPHES for c in meeting)
            self._joined[left, right] = joined
        return self._joined[left, right]


def _core(text: str) -> str:
    """The text from its first to its last letter or digit."""
    indices = [index for index, character in enumerate(text) if character.isalnum()]
    return text[indices[0] : indices[-1] + 1] if indices else ""


def _sentences(pieces: Sequence[str]) -> tuple[list[bool], list[int]]:
    """`marks` and `starts` of a `Row` from the texts of its tokens."""
    marks = []
    starts = []
    start = -1
    ended = False
    for index, piece in enumerate(pieces):
        bare = piece.strip()
        is_word = any(character.isalnum() for character in bare)
        marks.append(bool(bare) and not bare[-1].isalnum())
        if is_word and ended:
            start = index
            ended = False
            starts.append(-1)
        else:
            starts.append(start if is_word else -1)
        if bare.rstrip(_CLOSING).endswith(_ENDS):
            ended = True
    return marks, starts


class Phrase(NamedTuple):
    """A noun or name with what belongs to it, as indices in the list of words."""

    start: int
    article: int | None
    adjectives: list[int]


def noun_phrase(words: Sequence[Word], head: int) -> Phrase | None:
    """The phrase that ends in words[head].

    None if that is no noun or name, or not the phrase's last.
    """
    name = words[head].name
    if name not in ("noun", "name"):
        return None
    if head + 1 < len(words) and not words[head + 1].marked and words[head + 1].name == name:
        return None
    inside = ("name",) if name == "name" else ("noun", "modifier", "adjective")
    start = head
    adjectives = []
    while start and not words[start].marked:
        before = words[start - 1].name
        is_adverb = before == "adverb" and words[start].name == "adjective"
        if before not in inside and not is_adverb:
            break
        start -= 1
        if before == "adjective":
            adjectives.append(start)
    article = None
    if start and name == "noun" and not words[start].marked:
        before = words[start - 1].name
        if before in ("article", "determiner"):
            start -= 1
            article = start if before == "article" else None
    return Phrase(start, article, adjectives)


def preposition(words: Sequence[Word], phrase: Phrase) -> int | None:
    """The index of the preposition right before a phrase."""
    before = phrase.start - 1
    if before < 0 or words[phrase.start].marked:
        return None
    return before if words[before].name == "preposition" else None


def subject(words: Sequence[Word], verb: int) -> int | None:
    """The index of the subject before a verb or auxiliary; None if there is none or it is not plain.

    Before adverbs, auxiliaries and whole prepositional phrases it is a pronoun, a name, or a
    phrase's noun; of "Mrs Hill the baker" it is the name. An infinitive has none, nor has a verb
    of speech that may have its subject after it. No mark stands between subject and verb.
    """
    word = words[verb]
    if word.name not in ("verb", "auxiliary"):
        return None
    if word.text in _SPEECH and verb + 1 < len(words) and words[verb + 1].name in _NOMINAL:
        return None
    index = verb
    while index and not words[index].marked and words[index - 1].name in ("adverb", "auxiliary"):
        index -= 1
    while index and not words[index].marked:
        index -= 1
        if words[index].name == "pronoun":
            return index
        phrase = noun_phrase(words[: index + 1], index)
        if phrase is None:
            return None
        before = phrase.start - 1
        if before < 0 or words[phrase.start].marked:
            return index
        if words[before].name == "name" and phrase.article is not None:
            return before
        if words[before].name != "preposition":
            return index
        index = before
    return None
