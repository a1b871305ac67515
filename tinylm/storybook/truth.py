"""The true probability of every next word of a story: the generator follows a given text.

`Truth` holds every telling that agrees with the words read so far. Each telling knows its possible
next words, so together they give the generator's distribution. It is exact: nothing is sampled.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tinylm.storybook.corpus import RULES, VOWEL_SOUND, Call, Choice, Telling, normalise
from tinylm.storybook.lexicon import KINDS, Weighted

END = "<eos>"  # the word after a story's last one
LISTS = {  # kind of word: the lexicon's lists of such words
    "person": "child kin elder rel job folk being",
    "animal": "animal far fur petname",
    "thing": "thing look cloth fabric rug tool trouble food taste dish dishtaste goods build seed "
    "wild junk instrument treat object",
    "place": "village outside inside home shed air locale",
    "detail": "trait hobby game deed fear weather time date manner glad sad cheer pallor speed sadly "
    "luck going saying liking nice moved toward did mood hoped act whenever",
}
MEANING = {
    "person": "names, relatives, jobs and pronouns",
    "animal": "animals, their colours and names",
    "thing": "things, food and tools, and what they are like",
    "place": "villages, homes and places, and what they are like",
    "detail": "feelings, hobbies, the weather, and how something is done",
    "plot": "words of the plot, where another could follow",
    "fixed": "words of the plot, where no other could follow",
    "end": "the end of the story",
}
Told = tuple[tuple[str, str], ...]  # (word, kind); words from no list are of kind "plot"


@cache
def _words_of(piece: str, origin: str) -> Told:
    """Split a piece into words with their kind: lower case, letters only, "a" for "an"."""
    name = origin.partition(".")[0].partition(":")[0]
    kind = next((kind for kind, names in LISTS.items() if name in names.split()), "plot")
    return tuple(("a" if word == "an" else word, kind) for word in normalise(piece).split())


_first_words_of: dict[tuple[Weighted, str], list[Told]] = {}


def _first_words(telling: Telling, choice: Choice) -> list[Told]:
    """The words that each option begins with; empty where they depend on further choices."""
    key = (choice.weighted, telling.first_piece(choice, 0)[1])
    if key not in _first_words_of:
        options = range(len(choice.weighted.options))
        pieces = [telling.first_piece(choice, option) for option in options]
        _first_words_of[key] = [_words_of(*piece) for piece in pieces]
    return _first_words_of[key]


class Paused(NamedTuple):
    """A telling that agrees with the words read so far.

    prob: the probability of those words, told in this way. told: words already told, but not read.
    choice: the next one to make after them; None at the end of the story.
    """

    prob: float
    told: Told
    telling: Telling
    choice: Choice | None

    def next_words(self) -> Iterator[tuple[str, str, float, int]]:
        """Each possible next word: (word, kind, P(all words up to this one), the option to take).

        The option is -1 if the word is told already. Options without a first word are left out.
        """
        choice = self.choice
        if self.told or choice is None:
            word, kind = self.told[0] if self.told else (END, "end")
            yield word, kind, self.prob, -1
            return
        share = self.prob / choice.weight_left
        for option, words in enumerate(_first_words(self.telling, choice)):
            if words and option not in choice.banned:
                word, kind = words[0]
                yield word, kind, share * choice.weighted.weights[option], option

    def read(self, word: str) -> Iterator[Paused]:
        """The tellings after the word: one for each way to tell it."""
        for possible, _, prob, option in self.next_words():
            if possible != word or word == END:
                continue
            if option < 0:
                yield from self._replace(told=self.told[1:]).settled()
            else:
                yield from _pause(self._taken(option), prob, read=1)

    def settled(self) -> Iterator[Paused]:
        """This telling, and one for each option whose first word depends on further choices."""
        yield self
        choice = self.choice
        if self.told or choice is None:
            return
        share = self.prob / choice.weight_left
        for option, words in enumerate(_first_words(self.telling, choice)):
            if not words and option not in choice.banned:
                prob = share * choice.weighted.weights[option]
                yield from _pause(self._taken(option), prob)

    def _taken(self, option: int) -> Telling:
        branch = self.telling.fork()
        if self.choice is not None:
            branch.take(self.choice, option)
        return branch


def _pause(telling: Telling, prob: float, read: int = 0) -> Iterator[Paused]:
    """Tell up to the next choice. read: how many of the words told here have been read already."""
    choice = telling.advance()
    told: Told = ()
    for piece, origin in zip(telling.pieces, telling.origins, strict=True):
        told += _words_of(piece, origin)
    yield from Paused(prob, told[read:], telling, choice).settled()


@cache
def vocabulary() -> frozenset[str]:
    """Every word that a story can contain, lower case and letters only."""
    texts = [
        re.sub(r"^\d+\||\[[^]]*\]|\{[^}]*\}|<[^>]*>|\([^)]*\)", " ", line)
        for lines in RULES.values()
        for line in lines
    ]
    for listed in KINDS.values():
        for entry in listed.options:
            texts += entry.values()
    return frozenset(["an", *normalise(" ".join(texts)).split()])


@cache
def _article(word: str) -> str:
    return "an" if VOWEL_SOUND.match(f"a {word}") else "a"


@dataclass(frozen=True)
class NextWords:
    """The possible next words with their probabilities, and the kind of choice that the generator makes.

    kind: a key of MEANING, the most probable one.
    """

    probs: dict[str, float]
    kind: str


class Truth:
    """Reads a story word by word (lower case, letters only), and knows what can follow.

    The generator's phrases contain only "a"; a story has "an" before a vowel sound. So each
    article has the total probability of the words after "a" that agree with it, and only these
    words can follow it.

    log_prob: ln P of the words read so far, in nats.
    """

    def __init__(self) -> None:
        self.log_prob = 0.0
        self._prob = 1.0  # of the words read so far
        self._tellings = list(_pause(Telling([Call("story")]), 1.0))
        self._last = ""  # word
        self._next = self._look_ahead()

    def next_words(self) -> NextWords:
        """The generator's distribution of the next word, END for the end of the story."""
        return self._next

    def read(self, word: str) -> bool:
        """Read the next word, or END. If it is impossible here, read nothing and return False."""
        if word not in self._next.probs:
            return False
        prob = self._next.probs[word]
        self.log_prob += math.log(prob)
        self._prob *= prob
        self._tellings = _read(self._tellings, "a" if word == "an" else word)
        self._last = word
        self._next = self._look_ahead()
        return True

    def _look_ahead(self) -> NextWords:
        sums, kinds = _sums(self._tellings, self._last)
        kind = max(kinds, key=kinds.__getitem__, default="end")
        if "a" in sums:
            after, _ = _sums(_read(self._tellings, "a"), "")
            del sums["a"]
            for word, prob in after.items():
                sums[_article(word)] += prob
        probs = {word: prob / self._prob for word, prob in sums.items()}
        return NextWords(probs, "fixed" if kind == "plot" and len(probs) == 1 else kind)


def _read(tellings: Iterable[Paused], word: str) -> list[Paused]:
    return [further for telling in tellings for further in telling.read(word)]


def _sums(
    tellings: Iterable[Paused], last: str
) -> tuple[defaultdict[str, float], defaultdict[str, float]]:
    """Probabilities of the next words, and of their kinds. last: the word before them."""
    sums: defaultdict[str, float] = defaultdict(float)
    kinds: defaultdict[str, float] = defaultdict(float)
    for telling in tellings:
        for word, kind, prob, _ in telling.next_words():
            if last not in ("a", "an") or last == _article(word):
                sums[word] += prob
                kinds[kind] += prob
    return sums, kinds


@dataclass(frozen=True)
class Impossible:
    """The first word of a text that the generator cannot write there.

    words: the number of possible words before it. word: END if the text ends there.
    kind: of the generator's choice there. expected: its likeliest words, at most five.
    """

    words: int
    word: str
    kind: str
    expected: tuple[str, ...]


def first_impossible(words: Sequence[str], ended: bool) -> Impossible | None:
    """The first word with probability 0, or None. ended: END follows the words."""
    truth = Truth()
    for position, word in enumerate([*words, END] if ended else words):
        following = truth.next_words()
        if not truth.read(word):
            likeliest = sorted(following.probs, key=following.probs.__getitem__, reverse=True)
            return Impossible(position, word, following.kind, tuple(likeliest[:5]))
    return None
