"""Raw text as words, and what a word tokenizer drops: letters' case, punctuation, white space.

A story is its words and, for each word, a *shape* (how it is written) and a *gap* (what stands between it and the next
word): `describer` finds them, `restore` gives the story back, every character of it.
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Sequence

_CHUNKS = re.compile(r"\s+|\S+")
_CACHED = 1 << 17  # chunks of which the cut is kept
_WRITTEN = "="  # a shape that gives the word's letters one by one
_FIRST, _ALL = "C", "U"  # shapes of a word with a capital, and of one in capitals


@dataclasses.dataclass(frozen=True)
class Described:
    """A story's words (n), the shape of each, and the n + 1 gaps before, between and after them."""

    words: Sequence[str]
    shapes: Sequence[str]
    gaps: Sequence[str]


def restore(story: Described) -> str:
    """The story: gap, word in its shape, gap ..."""
    written = map(shaped, story.words, story.shapes)
    return (
        "".join(itertools.chain.from_iterable(zip(story.gaps, written, strict=False)))
        + story.gaps[-1]
    )


def shaped(word: str, shape: str) -> str:
    """The word as written. A shape is "=" and the letters, or C (first letter is a capital), U (all are) or neither,
    then pairs of a digit and a character to insert so many letters before the end: "C1'" makes "Mum's" of "mums"."""
    if shape.startswith(_WRITTEN):
        return shape[1:]
    case, pairs = (shape[0], shape[1:]) if shape[:1] in (_FIRST, _ALL) else ("", shape)
    word = {_FIRST: word[:1].upper() + word[1:], _ALL: word.upper(), "": word}[case]
    letters = list(word)
    for digit, character in zip(pairs[::2], pairs[1::2], strict=True):
        letters.insert(len(letters) - int(digit), character)
    return "".join(letters)


def shape_of(word: str, written: str) -> str:
    """The shape that makes `written` of the word, by its letters in their order; "=..." if only these tell it."""
    places = _places(word, written, 0)
    explicit = _WRITTEN + written
    if places is None:
        return explicit
    capitals = [written[place] != letter for place, letter in zip(places, word, strict=True)]
    case = "" if not any(capitals) else _FIRST if capitals[0] and not any(capitals[1:]) else _ALL
    known, pairs = set(places), ""
    for place, character in enumerate(written):
        if place not in known:
            inserted = sum(1 for other in places if other > place)
            if inserted > 9:
                return explicit
            pairs += f"{inserted}{character}"
    shape = case + pairs
    return shape if shaped(word, shape) == written else explicit


def _places(word: str, written: str, start: int) -> list[int] | None:
    """Where each letter of the word is found in `written` from `start`, in either case; None if one is missing."""
    places = []
    for letter in word:
        while (
            start < len(written) and written[start] != letter and written[start].lower() != letter
        ):
            start += 1
        if start == len(written):
            return None
        places.append(start)
        start += 1
    return places


def describer(split: Callable[[str], list[str]]) -> Callable[[str], Described]:
    """describe(text): the words are those of `split`, which never joins what white space separates."""

    @functools.lru_cache(_CACHED)
    def cut(chunk: str) -> Described:
        words, end = split(chunk), 0
        shapes, gaps = [], []
        for word in words:
            places = _places(word, chunk, end)
            if not places:
                return _unshaped(words, chunk)
            gaps.append(chunk[end : places[0]])
            end = places[-1] + 1
            shapes.append(shape_of(word, chunk[places[0] : end]))
        return Described(words, shapes, [*gaps, chunk[end:]])

    def describe(text: str) -> Described:
        words: list[str] = []
        shapes: list[str] = []
        gaps = [""]
        for chunk in _CHUNKS.findall(text):
            if chunk.isspace():
                gaps[-1] += chunk
                continue
            found = cut(chunk)
            words += found.words
            shapes += found.shapes
            gaps[-1] += found.gaps[0]
            gaps += found.gaps[1:]
        expected = split(text)
        return Described(words, shapes, gaps) if words == expected else _unshaped(expected, text)

    return describe


def _unshaped(words: Sequence[str], text: str) -> Described:
    """The text as the shape of its first word."""
    if not words:
        return Described([], [], [text])
    return Described(
        words, [_WRITTEN + text, *[_WRITTEN] * (len(words) - 1)], [""] * (len(words) + 1)
    )
