"""The words of a row of tokens, their classes, and their grammatical relations."""

from collections.abc import Sequence
from typing import NamedTuple

from tinylm.storybook.classes import look_up, word_classes
from tinylm.storybook.corpus import normalise
from tinylm.vocab.tokenizer import Tokenizer

_SPEECH = (
    "said",
    "asked",
    "answered",
    "replied",
    "cried",
    "called",
    "whispered",
    "shouted",
    "exclaimed",
)
_NOMINAL = ("article", "determiner", "noun", "name", "pronoun")
_APOSTROPHES = "'\u2019"
_CLOSING = "\"'\u201d\u2019)]}"


class Word(NamedTuple):
    """text: lower case, without marks around it; token: its place in the row, -1 if it is several tokens;
    name: its class, "" if unknown; marked: whether a punctuation mark or the row's start is right before it."""

    text: str
    token: int
    name: str
    marked: bool


class Row(NamedTuple):
    """A row of ids read as words. groups, text, marks, starts: lists of length T, one value per token.

    groups: the number of the word, mark or special token that it is or belongs to; text: it holds text (it is not a
    special token); marks: it is or ends with a punctuation mark; starts: the place of its sentence's first token, -1
    in the row's first sentence, at that token itself and at marks.
    """

    words: list[Word]
    groups: list[int]
    text: list[bool]
    marks: list[bool]
    starts: list[int]
    is_told: bool


class WordReader:
    """Reads rows of ids as classified words: the generator knows the classes of storybook rows, others are looked up.

    Words are found by decoding pairs of tokens: two belong to one word where letters, digits or apostrophes meet
    without a space.
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._silent = {*tokenizer.specials, tokenizer.unk_id}
        self._texts: dict[int, str] = {}
        self._glued: dict[tuple[int, int], bool] = {}

    def read(self, ids: Sequence[int]) -> Row:
        """The row as words with classes."""
        ids = [int(i) for i in ids]
        pieces = [self.text_of(i) for i in ids]
        bare: list[tuple[str, int, bool]] = []  # text, token, whether a mark is before it
        marked = True
        groups: list[int] = []
        for number, (first, last) in enumerate(self._groups(ids)):
            groups += [number] * (last + 1 - first)
            whole = "".join(pieces[first : last + 1]).strip()
            core = _core(whole)
            before, _, after = whole.partition(core) if core else (whole, "", "")
            unknown = ids[first] == self._tokenizer.unk_id
            marked = marked or bool(before) or (ids[first] in self._silent and not unknown)
            if core or unknown:
                bare.append((core.lower(), first if first == last else -1, marked))
                marked = bool(after)
        texts = [text for text, _, _ in bare]
        found = word_classes([normalise(text) for text in texts]) if all(texts) else None
        names, marks = found or (look_up(texts), [m for _, _, m in bare])
        words = [
            Word(text, token, name, mark or own)
            for (text, token, own), name, mark in zip(bare, names, marks, strict=True)
        ]
        return Row(
            words,
            groups,
            [i not in self._silent for i in ids],
            *_sentences(pieces),
            found is not None,
        )

    def text_of(self, token: int) -> str:
        """The text of one token, "" for a special or unknown one."""
        if token not in self._texts:
            self._texts[token] = "" if token in self._silent else self._tokenizer.decode([token])
        return self._texts[token]

    def _groups(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """First and last place of the tokens of each word, mark or special token."""
        groups: list[tuple[int, int]] = []
        for place, token in enumerate(ids):
            if groups and self._are_glued(ids[place - 1], token):
                groups[-1] = (groups[-1][0], place)
            else:
                groups.append((place, place))
        return groups

    def _are_glued(self, left: int, right: int) -> bool:
        if left in self._silent or right in self._silent:
            return False
        if (left, right) not in self._glued:
            start, both = self.text_of(left), self._tokenizer.decode([left, right])
            meet = (
                both[len(start) - 1 : len(start) + 1] if start and both.startswith(start) else "aa"
            )
            self._glued[left, right] = all(c.isalnum() or c in _APOSTROPHES for c in meet)
        return self._glued[left, right]


def _core(text: str) -> str:
    """The text from its first to its last letter or digit."""
    places = [i for i, c in enumerate(text) if c.isalnum()]
    return text[places[0] : places[-1] + 1] if places else ""


def _sentences(pieces: Sequence[str]) -> tuple[list[bool], list[int]]:
    """`marks` and `starts` of a `Row` from the texts of its tokens."""
    marks, starts = [], []
    start, ended = -1, False
    for place, piece in enumerate(pieces):
        bare = piece.strip()
        is_word = any(c.isalnum() for c in bare)
        marks.append(bool(bare) and not bare[-1].isalnum())
        if is_word and ended:
            start, ended = place, False
            starts.append(-1)
        else:
            starts.append(start if is_word else -1)
        ended = ended or bare.rstrip(_CLOSING).endswith((".", "!", "?", "\u2026"))
    return marks, starts


class Phrase(NamedTuple):
    """A noun or name with what belongs to it; places in the list of words."""

    start: int
    article: int | None
    adjectives: list[int]


def noun_phrase(words: Sequence[Word], head: int) -> Phrase | None:
    """The phrase that ends in words[head]; None if that is no noun or name, or not the phrase's last."""
    name = words[head].name
    ends = head + 1 == len(words) or words[head + 1].marked or words[head + 1].name != name
    if name not in ("noun", "name") or not ends:
        return None
    inside = ("name",) if name == "name" else ("noun", "modifier", "adjective")
    start, adjectives = head, []
    while start and not words[start].marked:
        before = words[start - 1].name
        if before not in inside and not (before == "adverb" and words[start].name == "adjective"):
            break
        start -= 1
        adjectives += [start] if before == "adjective" else []
    article = None
    if (
        start
        and name == "noun"
        and not words[start].marked
        and words[start - 1].name in ("article", "determiner")
    ):
        start -= 1
        article = start if words[start].name == "article" else None
    return Phrase(start, article, adjectives)


def preposition(words: Sequence[Word], phrase: Phrase) -> int | None:
    """The place of the preposition right before a phrase."""
    before = phrase.start - 1
    if before < 0 or words[phrase.start].marked or words[before].name != "preposition":
        return None
    return before


def subject(words: Sequence[Word], verb: int) -> int | None:
    """The place of the subject before a verb or auxiliary; None if there is none or it is not plain.

    Behind adverbs, auxiliaries and whole prepositional phrases: a pronoun, a name, or a phrase's noun; of "Mrs Hill
    the baker" the name. No infinitive, nothing across a mark, no verb of speech that may have its subject after it.
    """
    word = words[verb]
    if word.name not in ("verb", "auxiliary"):
        return None
    if word.text in _SPEECH and verb + 1 < len(words) and words[verb + 1].name in _NOMINAL:
        return None
    place = verb
    while place and not words[place].marked and words[place - 1].name in ("adverb", "auxiliary"):
        place -= 1
    while place and not words[place].marked:
        place -= 1
        if words[place].name == "pronoun":
            return place
        phrase = noun_phrase(words[: place + 1], place)
        if phrase is None:
            return None
        before = phrase.start - 1
        if before < 0 or words[phrase.start].marked:
            return place
        if words[before].name == "name" and phrase.article is not None:
            return before
        if words[before].name != "preposition":
            return place
        place = before
    return None
