"""Minimal pairs: two sentences that differ in one point of grammar or meaning.

The classes of phenomena follow BLiMP (Warstadt et al. 2020) and Zorro (Huebner et al. 2021).
Templates and words are our own, most words from the storybook's lexicon.
Pairs come in twos that are crossed: the right text of one is wrong in the other ("the dog was",
"the dogs were"), so word frequency alone gets one of the two right. In the other pairs both
sentences have the same words in another order, which word frequency cannot tell apart.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import yaml

from tinylm.storybook.lexicon import KINDS

_T = TypeVar("_T")
_Child = dict[str, str]  # the parts of a lexicon entry: "" is the name, "kind" is boy or girl
_DATA: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
WORDS: dict[str, str] = _DATA["words"]


class Pair(NamedTuple):
    """Two texts with the same beginning, of which only `right` is right."""

    right: str
    wrong: str


class NothingToDraw(Exception):
    """The vocabulary has too few words for a template."""


class Draw:
    """Draws words that a vocabulary has. has: whether it has this word."""

    def __init__(self, has: Callable[[str], bool], rng: np.random.Generator):
        self._has = has
        self._rng = rng
        self._entries: dict[str, list[dict[str, str]]] = {}

    def among(self, options: Sequence[_T], count: int = 1) -> list[_T]:
        """`count` different ones."""
        if len(options) < count:
            raise NothingToDraw
        return [options[index] for index in self._rng.permutation(len(options))[:count]]

    def word(self, words: str) -> str:
        """One of the words, which have spaces between them."""
        return self.among([word for word in words.split() if self._has(word)])[0]

    def forms(self, words: str) -> list[str]:
        """The forms of one word, all of them in the vocabulary."""
        rows = [word.split("/") for word in words.split()]
        return self.among([row for row in rows if all(map(self._has, row))])[0]

    def entries(self, kind: str) -> list[dict[str, str]]:
        """The entries of one word of a kind of the lexicon, as their parts ("": the word)."""
        if kind not in self._entries:
            options = [entry.parts for entry in KINDS[kind].options]
            self._entries[kind] = [parts for parts in options if self._has(parts[""])]
        return self._entries[kind]

    def of_kind(self, kind: str) -> str:
        """One word of a kind of the lexicon."""
        return self.among(self.entries(kind))[0][""]

    def child(self, kind: str = "", others: Sequence[_Child] = ()) -> _Child:
        """A child that is none of the others; kind: "boy", "girl" or "" for either."""
        entries = [parts for parts in self.entries("child") if kind in ("", parts["kind"])]
        return self.among([parts for parts in entries if parts not in others])[0]

    def opening(self) -> tuple[str, str]:
        """A story's first sentence about some child, and the name."""
        child = self.child()
        return opening(child), child[""]


class Phenomenon(NamedTuple):
    """about: grammar or meaning; draw: one pair, or two that are crossed."""

    name: str
    about: str
    draw: Callable[[Draw], list[Pair]]


def opening(child: _Child) -> str:
    """A story's first sentence. Every pair follows one, since stories are what models have read."""
    return f"Once upon a time there was a {child['kind']} named {child['']}."


def _crossed(one: str, other: str, fits_one: str, fits_other: str) -> list[Pair]:
    """Two pairs from two texts with a gap `_` and the word that fits each."""
    return [
        Pair(one.replace("_", fits_one), one.replace("_", fits_other)),
        Pair(other.replace("_", fits_other), other.replace("_", fits_one)),
    ]


def _in_order(start: str, words: Sequence[str], wrong: Sequence[str]) -> list[Pair]:
    """One pair of the same words in two orders."""
    return [Pair(f"{start} {' '.join(words)}.", f"{start} {' '.join(wrong)}.")]


def _from_template(draw: Draw, template: Mapping[str, Any]) -> list[Pair]:
    """Two crossed pairs by a template of phenomena.yaml, which explains its form."""
    values: dict[str, str] = {}
    children: list[_Child] = []
    for name, source in template["draw"].items():
        if isinstance(source, list):
            values[name] = draw.among(source)[0].format_map(values)
            continue
        how, _, what = source.partition(" ")
        words = WORDS.get(what, what)
        if how == "forms":
            values.update(zip(name.split("/"), draw.forms(words), strict=True))
        elif how == "word":
            values[name] = draw.word(words)
        elif how == "child":
            children.append(draw.child(what.format_map(values), children))
            values[name] = children[-1][""]
            values[f"{name}_opens"] = opening(children[-1])
        else:
            values[name] = draw.of_kind(how)
    one, other = (text.format_map(values) for text in template["texts"])
    fits_one, fits_other = (word.format_map(values) for word in template["fits"])
    return _crossed(one, other, fits_one, fits_other)


def _determiner_noun(draw: Draw) -> list[Pair]:
    start, name = draw.opening()
    singular, plural = draw.forms(WORDS["nouns"])
    of_one, of_many = draw.forms(WORDS["determiners"])
    if of_one == "a" and singular[0] in "aeiou":
        of_one = "an"
    verb = draw.word("saw found liked loved wanted")
    one = f"{start} {name} {verb} {of_one} _."
    many = f"{start} {name} {verb} {of_many} _."
    return _crossed(one, many, singular, plural)


def _article(draw: Draw) -> list[Pair]:
    start, name = draw.opening()
    (kinds, after) = draw.among([(("thing", "animal"), ""), (("look",), " thing")])[0]
    words = [parts[""] for kind in kinds for parts in draw.entries(kind)]
    vowels = [word for word in words if word[0] in "aeio"]  # not u: a unicorn, an umbrella
    consonants = [word for word in words if word[0] not in "aeiouh"]
    (with_an,) = draw.among(vowels)
    (with_a,) = draw.among(consonants)
    verb = draw.word("saw found wanted had")
    one = f"{start} {name} {verb} _ {with_a}{after}."
    other = f"{start} {name} {verb} _ {with_an}{after}."
    return _crossed(one, other, "a", "an")


def _word_order(draw: Draw) -> list[Pair]:
    start, name = draw.opening()
    thing = draw.of_kind("thing")
    landmark = draw.word("tree bridge table bed wall rock house")
    verb = draw.word("found took saw wanted loved lost put")
    near = draw.word("under near behind by")
    first_look, second_look = draw.among(draw.entries("look"), 2)
    words = [verb, "the", first_look[""], thing, near, "the", second_look[""], landmark]
    (at,) = draw.among(range(len(words) - 1))
    swapped = [*words[:at], words[at + 1], words[at], *words[at + 2 :]]
    return _in_order(f"{start} Then {name}", words, swapped)


def _negation(draw: Draw) -> list[Pair]:
    start, name = draw.opening()
    base, _ = draw.forms(WORDS["verbs"])
    thing = draw.of_kind("thing")
    helper = draw.word("did could would")
    rest = [helper, base, "the", draw.of_kind("look"), thing]
    words = [helper, "not", *rest[1:]]
    (at,) = draw.among([0, 2, 3, 4, 5])
    return _in_order(f"{start} {name}", words, [*rest[:at], "not", *rest[at:]])


def _animals(draw: Draw) -> list[Pair]:
    one, other = draw.among(draw.entries("animal"), 2)
    if one["sound"] == other["sound"]:
        raise NothingToDraw
    start, _ = draw.opening()
    first = f"{start} The {one['']} _."
    return _crossed(first, f"{start} The {other['']} _.", one["sound"], other["sound"])


def _belongings(draw: Draw) -> list[Pair]:
    kinds = [("girl", "boy"), ("boy", "girl"), ("boy", "boy"), ("girl", "girl")]
    kind_of_child, kind_of_friend = draw.among(kinds)[0]
    child = draw.child(kind_of_child)
    friend = draw.child(kind_of_friend, [child])
    things = [parts[""] for parts in draw.entries("thing") if parts[""][0] not in "aeiou"]
    of_child, of_friend = draw.among(things, 2)
    start = f"{opening(child)} {child['']} had a {of_child}. {friend['']} had a {of_friend}."
    verb = draw.word("lost took brought broke wanted loved")
    first = f"{start} {child['']} {verb} the _."
    return _crossed(first, f"{start} {friend['']} {verb} the _.", of_child, of_friend)


_WRITTEN = {  # phenomena that no template describes
    "determiner and noun": _determiner_noun,
    "a and an": _article,
    "word order": _word_order,
    "place of not": _negation,
    "who has what": _belongings,
    "animals and what they do": _animals,
}


def _phenomena() -> list[Phenomenon]:
    """Those of phenomena.yaml, in its order."""
    phenomena = []
    for name, entry in _DATA["phenomena"].items():
        draw = _WRITTEN.get(name) or functools.partial(_from_template, template=entry)
        phenomena.append(Phenomenon(name, entry["about"], draw))
    return phenomena


PHENOMENA = tuple(_phenomena())
