"""Minimal pairs: two sentences that differ in one point of grammar or meaning.

The classes of phenomena follow BLiMP (Warstadt et al. 2020) and Zorro (Huebner et al. 2021).
Templates and words are our own, most words from the storybook's lexicon.
Pairs come in twos that are crossed: the right text of one is wrong in the other ("the dog was",
"the dogs were"), so word frequency alone gets one of the two right. In the other pairs both
sentences have the same words in another order, which word frequency cannot tell apart.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import yaml

from tinylm.storybook.lexicon import KINDS

_T = TypeVar("_T")
_Child = dict[str, str]  # the parts of a lexicon entry: "" is the name, "kind" is boy or girl
WORDS: dict[str, str] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))


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

    def children(self, *kinds: str) -> list[_Child]:
        """A child for each "boy" or "girl", with different names."""
        children: list[_Child] = []
        for kind in kinds:
            entries = [parts for parts in self.entries("child") if parts["kind"] == kind]
            children += self.among([parts for parts in entries if parts not in children])
        return children

    def opening(self) -> tuple[str, str]:
        """A story's first sentence about some child, and the name."""
        (child,) = self.among(self.entries("child"))
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


def _subject_verb(draw: Draw) -> list[Pair]:
    start, _ = draw.opening()
    singular, plural = draw.forms(WORDS["nouns"])
    rest = f"_ {draw.of_kind('look')}."
    return _crossed(f"{start} The {singular} {rest}", f"{start} The {plural} {rest}", "was", "were")


def _across_a_phrase(draw: Draw) -> list[Pair]:
    start, _ = draw.opening()
    singular, plural = draw.forms(WORDS["nouns"])
    other_singular, other_plural = draw.forms(WORDS["nouns"])
    rest = f"_ {draw.of_kind('look')}."
    one = f"{start} The {singular} near the {other_plural} {rest}"
    many = f"{start} The {plural} near the {other_singular} {rest}"
    return _crossed(one, many, "was", "were")


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


def _past_form(draw: Draw) -> list[Pair]:
    start, name = draw.opening()
    base, past = draw.forms(WORDS["verbs"])
    thing = draw.of_kind("thing")
    helper = draw.word("did could would")
    negated = f"{start} {name} {helper} not _ the {thing}."
    return _crossed(negated, f"{start} Then {name} _ the {thing}.", base, past)


def _participle(draw: Draw) -> list[Pair]:
    start, name = draw.opening()
    past, participle = draw.forms(WORDS["participles"])
    pronoun = draw.word("he she they it")
    perfect = f"{start} {name} saw that {pronoun} had _."
    return _crossed(perfect, f"{start} Then {name} _.", participle, past)


def _infinitive(draw: Draw) -> list[Pair]:
    start, name = draw.opening()
    base, gerund = draw.forms(WORDS["gerunds"])
    verb = draw.word("wanted began liked loved")
    return _crossed(f"{start} {name} {verb} to _.", f"{start} {name} was _.", base, gerund)


def _case(draw: Draw) -> list[Pair]:
    start, _ = draw.opening()
    subject, object_ = draw.forms("he/him she/her they/them we/us I/me")
    verb = draw.word("saw found helped met loved followed liked hugged")
    animal = draw.of_kind("animal")
    subjects = ["Then _ {} the {}.", "One day _ {} a {}.", "And _ {} some {}s."]
    objects = [
        f"The {animal} {verb} _.",
        f"The {animal} sat near _.",
        f"The {animal} came to _.",
        f"The {animal} played with _.",
    ]
    as_subject = draw.among(subjects)[0].format(verb, animal)
    as_object = draw.among(objects)[0]
    return _crossed(f"{start} {as_subject}", f"{start} {as_object}", subject, object_)


def _pronoun(draw: Draw) -> list[Pair]:
    girl, boy = draw.children("girl", "boy")
    verb = draw.word("found saw wanted had")
    rest = f"One day _ {verb} the {draw.of_kind('thing')}."
    return _crossed(f"{opening(girl)} {rest}", f"{opening(boy)} {rest}", "she", "he")


def _possessive(draw: Draw) -> list[Pair]:
    girl, boy = draw.children("girl", "boy")
    verb = draw.word("lost found loved took")
    rest = f"{verb} _ {draw.of_kind('thing')}."
    hers = f"{opening(girl)} {girl['']} {rest}"
    return _crossed(hers, f"{opening(boy)} {boy['']} {rest}", "her", "his")


def _reflexive(draw: Draw) -> list[Pair]:
    girl, boy = draw.children("girl", "boy")
    verb = draw.word("saw hurt helped asked found")
    rest = f"{verb} _ and smiled at the {draw.of_kind('animal')}."
    hers = f"{opening(girl)} {girl['']} {rest}"
    return _crossed(hers, f"{opening(boy)} {boy['']} {rest}", "herself", "himself")


def _verb_object(draw: Draw) -> list[Pair]:
    start, name = draw.opening()
    landmark = draw.word("tree bridge table bed wall rock house window")
    with_object = draw.word(WORDS["with_object"])
    without = draw.word(WORDS["without_object"])
    preposition = draw.word("under near behind")
    after = f"Then {name} went home."
    transitive = f"{start} {name} _ the {draw.of_kind('thing')}. {after}"
    intransitive = f"{start} {name} _ {preposition} the {landmark}. {after}"
    return _crossed(transitive, intransitive, with_object, without)


def _filler_gap(draw: Draw) -> list[Pair]:
    start, name = draw.opening()
    animal = draw.of_kind("animal")
    thing = draw.of_kind("thing")
    knew = draw.word("knew saw heard")
    verb = draw.word("found wanted took saw had loved")
    clause = f"{start} {name} {knew} _ the {animal} {verb}"
    after = f"Then {name} went home."
    return _crossed(f"{clause}. {after}", f"{clause} the {thing}. {after}", "what", "that")


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


def _opposites(draw: Draw) -> list[Pair]:
    start, name = draw.opening()
    one, other = draw.forms(WORDS["opposites"])
    thing = f"The {draw.of_kind('thing')}"
    animal = f"The {draw.of_kind('animal')}"
    subject = draw.among([name, thing, animal])[0]
    not_one = f"{start} {subject} was not {one} but _."
    return _crossed(not_one, f"{start} {subject} was not {other} but _.", other, one)


def _verb_meaning(draw: Draw) -> list[Pair]:
    start, name = draw.opening()
    food = draw.of_kind("food")
    cloth = draw.of_kind("cloth")
    owner = draw.word("the his her")
    return _crossed(
        f"{start} {name} ate {owner} _.", f"{start} {name} wore {owner} _.", food, cloth
    )


def _animals(draw: Draw) -> list[Pair]:
    one, other = draw.among(draw.entries("animal"), 2)
    if one["sound"] == other["sound"]:
        raise NothingToDraw
    start, _ = draw.opening()
    first = f"{start} The {one['']} _."
    return _crossed(first, f"{start} The {other['']} _.", one["sound"], other["sound"])


def _belongings(draw: Draw) -> list[Pair]:
    kinds = [("girl", "boy"), ("boy", "girl"), ("boy", "boy"), ("girl", "girl")]
    child, friend = draw.children(*draw.among(kinds)[0])
    things = [parts[""] for parts in draw.entries("thing") if parts[""][0] not in "aeiou"]
    of_child, of_friend = draw.among(things, 2)
    start = f"{opening(child)} {child['']} had a {of_child}. {friend['']} had a {of_friend}."
    verb = draw.word("lost took brought broke wanted loved")
    first = f"{start} {child['']} {verb} the _."
    return _crossed(first, f"{start} {friend['']} {verb} the _.", of_child, of_friend)


def _same_person(draw: Draw) -> list[Pair]:
    (kind,) = draw.among(["girl", "boy"])
    one, other = draw.children(kind, kind)
    verb = draw.word("found saw wanted had")
    rest = f"One day _ {verb} the {draw.of_kind('thing')}."
    return _crossed(f"{opening(one)} {rest}", f"{opening(other)} {rest}", one[""], other[""])


def _name(draw: Draw) -> list[Pair]:
    girl, boy = draw.children("girl", "boy")
    (adjective,) = draw.among(["", "little "])
    start = f"Once upon a time there was a {adjective}_ named"
    after = f"had a {draw.word('ball boat kite hat cup')}."
    hers = f"{start} {girl['']} who {after}"
    return _crossed(hers, f"{start} {boy['']} who {after}", "girl", "boy")


PHENOMENA = (
    Phenomenon("subject and verb", "grammar", _subject_verb),
    Phenomenon("subject and verb across a phrase", "grammar", _across_a_phrase),
    Phenomenon("determiner and noun", "grammar", _determiner_noun),
    Phenomenon("a and an", "grammar", _article),
    Phenomenon("past form", "grammar", _past_form),
    Phenomenon("participle", "grammar", _participle),
    Phenomenon("infinitive and -ing form", "grammar", _infinitive),
    Phenomenon("case of pronouns", "grammar", _case),
    Phenomenon("reflexive pronoun", "grammar", _reflexive),
    Phenomenon("verb and object", "grammar", _verb_object),
    Phenomenon("filler and gap", "grammar", _filler_gap),
    Phenomenon("word order", "grammar", _word_order),
    Phenomenon("place of not", "grammar", _negation),
    Phenomenon("pronoun and person", "meaning", _pronoun),
    Phenomenon("possessive and person", "meaning", _possessive),
    Phenomenon("name and kind", "meaning", _name),
    Phenomenon("the same person", "meaning", _same_person),
    Phenomenon("who has what", "meaning", _belongings),
    Phenomenon("opposites", "meaning", _opposites),
    Phenomenon("what the verb asks for", "meaning", _verb_meaning),
    Phenomenon("animals and what they do", "meaning", _animals),
)
