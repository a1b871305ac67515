"""The words of a row of tokens, their classes, and their grammatical relations."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tinylm.storybook.classes import look_up, word_classes
from tinylm.storybook.corpus import normalise
from tinylm.vocab.tokenizer import Tokenizer

_SPEECH = (
    "said", "asked", "answered", "replied", "cried", "called", "whispered", "shouted", "exclaimed"
)  # fmt: skip
_NOMINAL = ("article", "determiner", "noun", "name", "pronoun")
_UNKNOWN = "\x00"  # the text of <unk>: a word
_SPECIAL = "\x01"  # the text of the other special tokens: a mark
_LETTER = "(?:[^\\W_]|\ufffd)"  # or a digit, or a part of a character
_WORD = re.compile(f"{_UNKNOWN}|{_LETTER}+(?:['\u2019-]{_LETTER}+)*")
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
    """

    words: list[Word]
    text: list[bool]
    marks: list[bool]
    starts: list[int]


def read_row(tokenizer: Tokenizer, ids: Sequence[int]) -> Row:
    """A row of ids as words with classes.

    The classes of storybook rows come from the generator, others are looked up.
    """
    pieces = _pieces(tokenizer, ids)
    words = _words(pieces)
    texts = [word.text for word in words]
    names = look_up(texts)
    after_marks = [False] * len(words)
    if all(texts):
        told = word_classes([normalise(text) for text in texts])
        if told:
            names, after_marks = told
    for index, word in enumerate(words):
        is_marked = word.marked or after_marks[index]
        words[index] = word._replace(name=names[index], marked=is_marked)
    marks, starts = _sentences(pieces)
    silent = {*tokenizer.specials, tokenizer.unk_id}
    is_text = [token not in silent for token in ids]
    return Row(words, is_text, marks, starts)


def _pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The text that each token adds to that of the token before it."""
    pieces = []
    before: list[int] = []
    for token in ids:
        if token == tokenizer.unk_id:
            pieces.append(_UNKNOWN)
            before = []
        elif token in tokenizer.specials:
            pieces.append(_SPECIAL)
            before = []
        else:
            shown = len(tokenizer.decode(before))
            pieces.append(tokenizer.decode([*before, token])[shown:])
            before = [token]
    return pieces


def _words(pieces: Sequence[str]) -> list[Word]:
    """The words of a line of these pieces, without their classes."""
    line = "".join(pieces)
    lengths = [len(piece) for piece in pieces]
    tokens = np.repeat(np.arange(len(pieces)), lengths)  # of each character
    words = []
    end = 0
    for match in _WORD.finditer(line):
        first = int(tokens[match.start()])
        last = int(tokens[match.end() - 1])
        token = first if first == last else -1
        text = match.group().lower().strip(_UNKNOWN)
        between = line[end : match.start()].strip()
        is_marked = not end or bool(between)
        words.append(Word(text, token, "", is_marked))
        end = match.end()
    return words


def _sentences(pieces: Sequence[str]) -> tuple[list[bool], list[int]]:
    """`marks` and `starts` of a `Row` from the texts of its tokens."""
    marks = []
    starts = []
    start = -1
    ended = False
    for index, piece in enumerate(pieces):
        bare = piece.strip(f" \t\n{_UNKNOWN}{_SPECIAL}")
        is_word = any(character.isalnum() for character in bare)
        marks.append(bool(bare) and not bare[-1].isalnum())
        starts.append(start if is_word and not ended else -1)
        if is_word and ended:
            start = index
            ended = False
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
    after = words[head + 1 : head + 2]
    if after and not after[0].marked and after[0].name == name:
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
    after = words[verb + 1 : verb + 2]
    if word.text in _SPEECH and after and after[0].name in _NOMINAL:
        return None
    index = verb
    while index and not words[index].marked:
        if words[index - 1].name not in ("adverb", "auxiliary"):
            break
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
