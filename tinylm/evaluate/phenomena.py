"""Minimal pairs: two sentences that differ in one point of grammar or meaning, of which one is right.

The classes of phenomena follow BLiMP (Warstadt et al. 2020) and Zorro (Huebner et al. 2021); templates and words are
our own, most words from the storybook's lexicon. Pairs come in twos that are crossed: what is right in one is wrong in
the other ("the dog was", "the dogs were"), so that who only knows how frequent words are gets one of the two right.
In the others both sentences have the same words in another order, which such a reader cannot tell apart.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from tinylm.storybook.lexicon import KINDS

_Any = TypeVar("_Any")


class Pair(NamedTuple):
    """Two texts with the same beginning, of which only `right` is."""

    right: str
    wrong: str


class Phenomenon(NamedTuple):
    """about: grammar or meaning; draw: one pair, or two that are crossed."""

    name: str
    about: str
    draw: "Callable[[Draw], list[Pair]]"


class NothingToDraw(Exception):
    """The vocabulary has too few words for a template."""


class Draw:
    """Draws words that a vocabulary has. has: whether it has this word."""

    def __init__(self, has: Callable[[str], bool], rng: np.random.Generator):
        self._has, self._rng = has, rng
        self._lists: dict[str, list[dict[str, str]]] = {}

    def among(self, options: Sequence[_Any], count: int = 1) -> list[_Any]:
        """`count` different ones."""
        if len(options) < count:
            raise NothingToDraw
        return [options[i] for i in self._rng.permutation(len(options))[:count]]

    def words(self, listed: str, count: int = 1) -> list[str]:
        """Different words of a list."""
        return self.among([word for word in listed.split() if self._has(word)], count)

    def forms(self, listed: str) -> list[str]:
        """The forms of one entry of a list, all of them in the vocabulary."""
        rows = [row.split("/") for row in listed.split()]
        return self.among([row for row in rows if all(map(self._has, row))])[0]

    def all_of(self, kind: str) -> list[dict[str, str]]:
        """The entries of one word of a kind of the lexicon, as their parts ("": the word itself)."""
        if kind not in self._lists:
            self._lists[kind] = [
                entry.parts for entry in KINDS[kind].options if self._has(entry.parts[""])
            ]
        return self._lists[kind]

    def one(self, kind: str) -> str:
        """One word of a kind of the lexicon."""
        return self.among(self.all_of(kind))[0][""]

    def children(self, *kinds: str) -> list[dict[str, str]]:
        """A child for each "boy" or "girl", with different names."""
        found: list[dict[str, str]] = []
        for kind in kinds:
            found += self.among(
                [
                    parts
                    for parts in self.all_of("child")
                    if parts["kind"] == kind and parts not in found
                ]
            )
        return found


# Forms with a slash between them, for as many words as children's stories have.
NOUNS = """animal/animals apple/apples ball/balls bean/beans bird/birds biscuit/biscuits book/books box/boxes boy/boys
bridge/bridges bucket/buckets button/buttons cabbage/cabbages cake/cakes car/cars card/cards carrot/carrots cat/cats
cave/caves chair/chairs cloud/clouds coin/coins cookie/cookies cow/cows crayon/crayons cup/cups doctor/doctors dog/dogs
doll/dolls door/doors duck/ducks egg/eggs explorer/explorers feather/feathers fence/fences flower/flowers friend/friends
frog/frogs giant/giants girl/girls hand/hands hat/hats hen/hens horse/horses jar/jars key/keys king/kings kite/kites
ladder/ladders lamp/lamps lemon/lemons log/logs marble/marbles mask/masks melon/melons mirror/mirrors moth/moths
nail/nails onion/onions orange/oranges owl/owls parcel/parcels pear/pears pebble/pebbles pencil/pencils pie/pies
pig/pigs plum/plums pond/ponds puppet/puppets queen/queens rabbit/rabbits ring/rings road/roads rock/rocks rose/roses
rug/rugs seed/seeds shell/shells shirt/shirts shoe/shoes snail/snails sock/socks song/songs spider/spiders star/stars
statue/statues stick/sticks stone/stones toy/toys train/trains tree/trees truck/trucks tulip/tulips tunnel/tunnels
turnip/turnips twig/twigs wave/waves wheel/wheels window/windows"""
DETERMINERS = "this/these that/those every/many one/two a/three every/three"
VERBS = """see/saw eat/ate take/took give/gave know/knew forget/forgot break/broke wear/wore hide/hid draw/drew
find/found make/made hold/held lose/lost bring/brought buy/bought keep/kept leave/left hear/heard tell/told meet/met
catch/caught build/built throw/threw like/liked want/wanted need/needed love/loved help/helped open/opened touch/touched
push/pushed pull/pulled carry/carried share/shared show/showed use/used watch/watched follow/followed play/played
drop/dropped borrow/borrowed mend/mended fetch/fetched pack/packed plant/planted remember/remembered"""
PARTICIPLES = """saw/seen ate/eaten took/taken gave/given went/gone knew/known forgot/forgotten broke/broken did/done
wore/worn fell/fallen chose/chosen hid/hidden drew/drawn rode/ridden flew/flown sang/sung swam/swum drank/drunk
began/begun spoke/spoken threw/thrown grew/grown came/come ran/run woke/woken"""
GERUNDS = """play/playing look/looking sing/singing run/running swim/swimming dance/dancing jump/jumping sleep/sleeping
cry/crying walk/walking wait/waiting eat/eating read/reading paint/painting climb/climbing bake/baking fish/fishing
ask/asking draw/drawing talk/talking help/helping laugh/laughing cook/cooking build/building hide/hiding think/thinking
smile/smiling clean/cleaning rest/resting write/writing skip/skipping garden/gardening whistle/whistling
dream/dreaming"""
WITH_OBJECT = """found took loved brought needed bought carried hugged made wanted gave liked lost caught dropped
mended fetched packed built borrowed shared"""
WITHOUT_OBJECT = """slept sat stayed lived waited laughed smiled cried sighed nodded danced jumped went sang rested lay
stood swam walked"""
OPPOSITES = """hot/cold big/little old/young happy/sad fast/slow wet/dry long/short good/bad full/empty clean/dirty
new/old black/white high/low soft/hard thick/thin strong/weak early/late loud/quiet light/dark rough/smooth fat/thin
big/small tall/short nice/mean heavy/light kind/mean open/shut polite/rude bright/dark warm/cold rich/poor tidy/messy
brave/shy lazy/busy sweet/sour tame/wild"""


def opening(child: dict[str, str]) -> str:
    """How a story begins: every pair follows such a sentence, since that is where the model has been."""
    return f"Once upon a time there was a {child['kind']} named {child['']}."


def _crossed(one: str, other: str, fits_one: str, fits_other: str) -> list[Pair]:
    """Two pairs from two texts with a gap `_` and the word that fits each."""
    return [
        Pair(one.replace("_", fits_one), one.replace("_", fits_other)),
        Pair(other.replace("_", fits_other), other.replace("_", fits_one)),
    ]


def _begun(draw: Draw) -> tuple[str, str]:
    """The opening about some child, and the name."""
    (child,) = draw.among(draw.all_of("child"))
    return opening(child), child[""]


def _subject_verb(draw: Draw) -> list[Pair]:
    start, (one, many), look = _begun(draw)[0], draw.forms(NOUNS), draw.one("look")
    return _crossed(f"{start} The {one} _ {look}.", f"{start} The {many} _ {look}.", "was", "were")


def _across_a_phrase(draw: Draw) -> list[Pair]:
    start, (one, many), (other, others) = _begun(draw)[0], draw.forms(NOUNS), draw.forms(NOUNS)
    rest = f"_ {draw.one('look')}."
    return _crossed(
        f"{start} The {one} near the {others} {rest}",
        f"{start} The {many} near the {other} {rest}",
        "was",
        "were",
    )


def _determiner_noun(draw: Draw) -> list[Pair]:
    (start, name), noun, (one, many) = _begun(draw), draw.forms(NOUNS), draw.forms(DETERMINERS)
    if one == "a" and noun[0][0] in "aeiou":
        one = "an"
    verb = draw.words("saw found liked loved wanted")[0]
    return _crossed(f"{start} {name} {verb} {one} _.", f"{start} {name} {verb} {many} _.", *noun)


def _article(draw: Draw) -> list[Pair]:
    start, name = _begun(draw)
    kinds, after = draw.among([(("thing", "animal"), ""), (("look",), " thing")])[0]
    things = [parts[""] for kind in kinds for parts in draw.all_of(kind)]
    vowels = [word for word in things if word[0] in "aeio"]  # not u: a unicorn, an umbrella
    consonants = [word for word in things if word[0] not in "aeiouh"]
    (an,), (a,) = draw.among(vowels), draw.among(consonants)
    verb = draw.words("saw found wanted had")[0]
    return _crossed(
        f"{start} {name} {verb} _ {a}{after}.", f"{start} {name} {verb} _ {an}{after}.", "a", "an"
    )


def _past_form(draw: Draw) -> list[Pair]:
    (start, name), forms, what = _begun(draw), draw.forms(VERBS), draw.one("thing")
    helper = draw.words("did could would")[0]
    return _crossed(
        f"{start} {name} {helper} not _ the {what}.", f"{start} Then {name} _ the {what}.", *forms
    )


def _participle(draw: Draw) -> list[Pair]:
    (start, name), (past, participle), who = (
        _begun(draw),
        draw.forms(PARTICIPLES),
        draw.words("he she they it")[0],
    )
    return _crossed(
        f"{start} {name} saw that {who} had _.", f"{start} Then {name} _.", participle, past
    )


def _infinitive(draw: Draw) -> list[Pair]:
    (start, name), forms, helper = (
        _begun(draw),
        draw.forms(GERUNDS),
        draw.words("wanted began liked loved")[0],
    )
    return _crossed(f"{start} {name} {helper} to _.", f"{start} {name} was _.", *forms)


def _case(draw: Draw) -> list[Pair]:
    start, subject_and_object = _begun(draw)[0], draw.forms("he/him she/her they/them we/us I/me")
    verb, what = (
        draw.words("saw found helped met loved followed liked hugged")[0],
        draw.one("animal"),
    )
    as_subject = draw.among(
        [f"Then _ {verb} the {what}.", f"One day _ {verb} a {what}.", f"And _ {verb} some {what}s."]
    )
    as_object = draw.among(
        [
            f"The {what} {verb} _.",
            f"The {what} sat near _.",
            f"The {what} came to _.",
            f"The {what} played with _.",
        ]
    )
    return _crossed(f"{start} {as_subject[0]}", f"{start} {as_object[0]}", *subject_and_object)


def _pronoun(draw: Draw) -> list[Pair]:
    girl, boy = draw.children("girl", "boy")
    rest = f"One day _ {draw.words('found saw wanted had')[0]} the {draw.one('thing')}."
    return _crossed(f"{opening(girl)} {rest}", f"{opening(boy)} {rest}", "she", "he")


def _possessive(draw: Draw) -> list[Pair]:
    girl, boy = draw.children("girl", "boy")
    rest = f"{draw.words('lost found loved took')[0]} _ {draw.one('thing')}."
    return _crossed(
        f"{opening(girl)} {girl['']} {rest}", f"{opening(boy)} {boy['']} {rest}", "her", "his"
    )


def _reflexive(draw: Draw) -> list[Pair]:
    girl, boy = draw.children("girl", "boy")
    rest = (
        f"{draw.words('saw hurt helped asked found')[0]} _ and smiled at the {draw.one('animal')}."
    )
    return _crossed(
        f"{opening(girl)} {girl['']} {rest}",
        f"{opening(boy)} {boy['']} {rest}",
        "herself",
        "himself",
    )


def _verb_object(draw: Draw) -> list[Pair]:
    (start, name), what = (
        _begun(draw),
        draw.words("tree bridge table bed wall rock house window")[0],
    )
    with_object, without = draw.words(WITH_OBJECT)[0], draw.words(WITHOUT_OBJECT)[0]
    place = draw.words("under near behind")[0]
    after = f"Then {name} went home."
    return _crossed(
        f"{start} {name} _ the {draw.one('thing')}. {after}",
        f"{start} {name} _ {place} the {what}. {after}",
        with_object,
        without,
    )


def _filler_gap(draw: Draw) -> list[Pair]:
    (start, name), who, what = _begun(draw), draw.one("animal"), draw.one("thing")
    knew, verb = draw.words("knew saw heard")[0], draw.words("found wanted took saw had loved")[0]
    return _crossed(
        f"{start} {name} {knew} _ the {who} {verb}. Then {name} went home.",
        f"{start} {name} {knew} _ the {who} {verb} the {what}. Then {name} went home.",
        "what",
        "that",
    )


def _word_order(draw: Draw) -> list[Pair]:
    (start, name), thing, place = (
        _begun(draw),
        draw.one("thing"),
        draw.words("tree bridge table bed wall rock house")[0],
    )
    verb, near = (
        draw.words("found took saw wanted loved lost put")[0],
        draw.words("under near behind by")[0],
    )
    looks = [parts[""] for parts in draw.among(draw.all_of("look"), 2)]
    words = [verb, "the", looks[0], thing, near, "the", looks[1], place]
    (at,) = draw.among(range(len(words) - 1))
    swapped = [*words[:at], words[at + 1], words[at], *words[at + 2 :]]
    return [Pair(*(f"{start} Then {name} {' '.join(order)}." for order in (words, swapped)))]


def _negation(draw: Draw) -> list[Pair]:
    (start, name), (base, _), what = _begun(draw), draw.forms(VERBS), draw.one("thing")
    words = [draw.words("did could would")[0], "not", base, "the", draw.one("look"), what]
    (at,) = draw.among([0, 2, 3, 4, 5])
    rest = [words[0], *words[2:]]
    moved = [*rest[:at], "not", *rest[at:]]
    return [Pair(*(f"{start} {name} {' '.join(order)}." for order in (words, moved)))]


def _opposites(draw: Draw) -> list[Pair]:
    (start, name), (one, other) = _begun(draw), draw.forms(OPPOSITES)
    who = draw.among([name, f"The {draw.one('thing')}", f"The {draw.one('animal')}"])[0]
    return _crossed(
        f"{start} {who} was not {one} but _.", f"{start} {who} was not {other} but _.", other, one
    )


def _verb_meaning(draw: Draw) -> list[Pair]:
    (start, name), food, cloth = _begun(draw), draw.one("food"), draw.one("cloth")
    owner = draw.words("the his her")[0]
    return _crossed(
        f"{start} {name} ate {owner} _.", f"{start} {name} wore {owner} _.", food, cloth
    )


def _animals(draw: Draw) -> list[Pair]:
    one, other = draw.among(draw.all_of("animal"), 2)
    if one["sound"] == other["sound"]:
        raise NothingToDraw
    start = _begun(draw)[0]
    return _crossed(
        f"{start} The {one['']} _.", f"{start} The {other['']} _.", one["sound"], other["sound"]
    )


def _belongings(draw: Draw) -> list[Pair]:
    child, friend = draw.children(
        *draw.among([("girl", "boy"), ("boy", "girl"), ("boy", "boy"), ("girl", "girl")])[0]
    )
    things = [parts[""] for parts in draw.all_of("thing") if parts[""][0] not in "aeiou"]
    own, other = draw.among(things, 2)
    start = f"{opening(child)} {child['']} had a {own}. {friend['']} had a {other}."
    verb = draw.words("lost took brought broke wanted loved")[0]
    return _crossed(
        f"{start} {child['']} {verb} the _.", f"{start} {friend['']} {verb} the _.", own, other
    )


def _same_person(draw: Draw) -> list[Pair]:
    kind = draw.among(["girl", "boy"])[0]
    one, other = draw.children(kind, kind)
    rest = f"One day _ {draw.words('found saw wanted had')[0]} the {draw.one('thing')}."
    return _crossed(f"{opening(one)} {rest}", f"{opening(other)} {rest}", one[""], other[""])


def _name(draw: Draw) -> list[Pair]:
    girl, boy = draw.children("girl", "boy")
    start = draw.among(
        ["Once upon a time there was a _ named", "Once upon a time there was a little _ named"]
    )[0]
    after = f"had a {draw.words('ball boat kite hat cup')[0]}."
    return _crossed(
        f"{start} {girl['']} who {after}", f"{start} {boy['']} who {after}", "girl", "boy"
    )


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
