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
Entry = dict[str, str]  # of the lexicon: its parts, for a child "kind" (boy or girl)
NAME = ""  # the part that is the word itself
_FILE = Path(__file__).with_suffix(".yaml")
_DATA: dict[str, Any] = yaml.safe_load(_FILE.read_text("utf-8"))
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

    def some(self, options: Sequence[_T], count: int) -> list[_T]:
        """`count` different ones."""
        if len(options) < count:
            raise NothingToDraw
        order = self._rng.permutation(len(options))
        return [options[index] for index in order[:count]]

    def one(self, options: Sequence[_T]) -> _T:
        return self.some(options, 1)[0]

    def word(self, words: str) -> str:
        """One of the words, which have spaces between them."""
        return self.one([word for word in words.split() if self._has(word)])

    def forms(self, words: str) -> list[str]:
        """The forms of one word, all of them in the vocabulary."""
        rows = [word.split("/") for word in words.split()]
        return self.one([row for row in rows if all(map(self._has, row))])

    def entries(self, kind: str) -> list[Entry]:
        """The entries of one word of a kind of the lexicon."""
        entries = [option.parts for option in KINDS[kind].options]
        return [entry for entry in entries if self._has(entry[NAME])]

    def of_kind(self, kind: str) -> str:
        """One word of a kind of the lexicon."""
        return self.one(self.entries(kind))[NAME]

    def child(self, kind: str = "", others: Sequence[Entry] = ()) -> Entry:
        """A child that is none of the others; kind: "boy", "girl" or "" for either."""
        children = [child for child in self.entries("child") if child not in others]
        return self.one([child for child in children if kind in ("", child["kind"])])

    def opening(self) -> tuple[str, str]:
        """A story's first sentence about some child, and the name."""
        child = self.child()
        return opening(child), child[NAME]


class Phenomenon(NamedTuple):
    """about: grammar or meaning; draw: one pair, or two that are crossed."""

    name: str
    about: str
    draw: Callable[[Draw], list[Pair]]


def opening(child: Entry) -> str:
    """A story's first sentence. Every pair follows one, since stories are what models have read."""
    return f"Once upon a time there was a {child['kind']} named {child[NAME]}."


def _crossed(one: str, other: str, fits_one: str, fits_other: str) -> list[Pair]:
    """Two pairs from two texts with a gap `_` and the word that fits each."""
    first = Pair(one.replace("_", fits_one), one.replace("_", fits_other))
    second = Pair(other.replace("_", fits_other), other.replace("_", fits_one))
    return [first, second]


def _in_order(start: str, words: Sequence[str], wrong: Sequence[str]) -> list[Pair]:
    """One pair of the same words in two orders."""
    right_words = " ".join(words)
    wrong_words = " ".join(wrong)
    return [Pair(f"{start} {right_words}.", f"{start} {wrong_words}.")]


def _from_template(draw: Draw, template: Mapping[str, Any]) -> list[Pair]:
    """Two crossed pairs by a template of phenomena.yaml, which explains its form."""
    values: dict[str, str] = {}
    children: list[Entry] = []
    for name, source in template["draw"].items():
        if isinstance(source, list):
            values[name] = draw.one(source).format_map(values)
            continue
        how, _, what = source.partition(" ")
        words = WORDS.get(what, what)
        if how == "forms":
            forms = zip(name.split("/"), draw.forms(words), strict=True)
            values.update(forms)
        elif how == "word":
            values[name] = draw.word(words)
        elif how == "child":
            child = draw.child(what.format_map(values), children)
            children.append(child)
            values[name] = child[NAME]
            values[f"{name}_opens"] = opening(child)
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
    use = draw.one(["noun", "adjective"])
    entries = draw.entries("look")
    after = " thing"
    if use == "noun":
        entries = draw.entries("thing") + draw.entries("animal")
        after = ""
    words = [entry[NAME] for entry in entries]
    with_an = draw.one([word for word in words if word[0] in "aeio"])  # not u: a unicorn
    with_a = draw.one([word for word in words if word[0] not in "aeiouh"])
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
    looks = draw.some(draw.entries("look"), 2)
    first_look, second_look = (entry[NAME] for entry in looks)
    words = [verb, "the", first_look, thing, near, "the", second_look, landmark]
    at = draw.one(range(len(words) - 1))
    swapped = list(words)
    swapped.insert(at, swapped.pop(at + 1))
    return _in_order(f"{start} Then {name}", words, swapped)


def _negation(draw: Draw) -> list[Pair]:
    start, name = draw.opening()
    base, _ = draw.forms(WORDS["verbs"])
    thing = draw.of_kind("thing")
    helper = draw.word("did could would")
    rest = [helper, base, "the", draw.of_kind("look"), thing]
    right = [helper, "not", *rest[1:]]
    wrong = list(rest)
    wrong.insert(draw.one([0, 2, 3, 4, 5]), "not")
    return _in_order(f"{start} {name}", right, wrong)


def _animals(draw: Draw) -> list[Pair]:
    one, other = draw.some(draw.entries("animal"), 2)
    if one["sound"] == other["sound"]:
        raise NothingToDraw
    start, _ = draw.opening()
    first = f"{start} The {one[NAME]} _."
    second = f"{start} The {other[NAME]} _."
    return _crossed(first, second, one["sound"], other["sound"])


def _belongings(draw: Draw) -> list[Pair]:
    kinds = ["girl boy", "boy girl", "boy boy", "girl girl"]
    kind_of_child, kind_of_friend = draw.one(kinds).split()
    child = draw.child(kind_of_child)
    friend = draw.child(kind_of_friend, [child])
    things = [thing[NAME] for thing in draw.entries("thing")]
    with_a = [thing for thing in things if thing[0] not in "aeiou"]
    of_child, of_friend = draw.some(with_a, 2)
    name = child[NAME]
    friends_name = friend[NAME]
    start = f"{opening(child)} {name} had a {of_child}. {friends_name} had a {of_friend}."
    verb = draw.word("lost took brought broke wanted loved")
    first = f"{start} {name} {verb} the _."
    second = f"{start} {friends_name} {verb} the _."
    return _crossed(first, second, of_child, of_friend)


_WRITTEN = {  # phenomena that no template describes
    "determiner and noun": _determiner_noun,
    "a and an": _article,
    "word order": _word_order,
    "place of not": _negation,
    "who has what": _belongings,
    "animals and what they do": _animals,
}


PHENOMENA: list[Phenomenon] = []  # in the order of phenomena.yaml
for _name, _entry in _DATA["phenomena"].items():
    _draw = _WRITTEN.get(_name) or functools.partial(_from_template, template=_entry)
    PHENOMENA.append(Phenomenon(_name, _entry["about"], _draw))
