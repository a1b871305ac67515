"""The true probability of every next word of a story, computed exactly: nothing is sampled.

`Truth` reads a text and keeps one derivation for each way in which the generator can have written it.
For example, "june was a hopeful girl from birchville" can be followed by seven phrases:

    0.20 she had a ...           0.15 june and her ...        0.10 june loved ...
    0.20 her ...                 0.15 she often played ...    0.10 june loved to ...
                                                              0.10 june liked ...

The probability of the next word is the sum over the phrases that begin with it: june 0.45,
she 0.35, her 0.20. Reading "she" leaves two derivations, so the next word is "had" with a
probability of 0.20 / 0.35 = 0.57 and "often" with 0.43.
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
ARTICLES = ("a", "an")
ARTICLE = "a/an"  # either of the two, in derivations: the word after it decides which
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
Words = tuple[tuple[str, str], ...]  # (word, kind); words from no list are of kind "plot"


@cache
def _words_of(piece: str, origin: str) -> Words:
    """Split a piece into words with their kind: lower case, letters only, ARTICLE for "a" and "an"."""
    name = origin.partition(".")[0].partition(":")[0]
    kind = next((kind for kind, names in LISTS.items() if name in names.split()), "plot")
    words = normalise(piece).split()
    return tuple((ARTICLE if word in ARTICLES else word, kind) for word in words)


class Options(NamedTuple):
    """How the options of a choice begin.

    first: the first word of each with its kind; None for a silent option, whose first word depends
    on further choices. by_word: the options that begin with a word. silent: the silent ones.
    """

    first: list[tuple[str, str] | None]
    by_word: dict[str, list[int]]
    silent: list[int]


_known_options: dict[tuple[Weighted, str], Options] = {}


def _options_of(telling: Telling, choice: Choice) -> Options:
    key = (choice.weighted, telling.first_piece(choice, 0)[1])
    if key not in _known_options:
        options = Options([], {}, [])
        for option in range(len(choice.weighted.options)):
            words = _words_of(*telling.first_piece(choice, option))
            options.first.append(words[0] if words else None)
            if words:
                options.by_word.setdefault(words[0][0], []).append(option)
            else:
                options.silent.append(option)
        _known_options[key] = options
    return _known_options[key]


class Derivation(NamedTuple):
    """One way in which the generator can have written the words read so far.

    prob: the probability of writing them in this way. unread: words that follow without a choice.
    telling: the story up to and including these. choice: the next one; None at the story's end.
    """

    prob: float
    unread: Words
    telling: Telling
    choice: Choice | None

    def next_words(self) -> Iterator[tuple[str, str, float]]:
        """Each possible next word: (word, kind, P(the words read and this one)).

        Silent options are left out, because `with_silent_options` turns them into derivations.
        """
        choice = self.choice
        if self.unread:
            yield *self.unread[0], self.prob
        elif choice is None:
            yield END, "end", self.prob
        else:
            share = self.prob / choice.weight_left
            weights = choice.weighted.weights
            for option, first in enumerate(_options_of(self.telling, choice).first):
                if first and option not in choice.banned:
                    yield *first, share * weights[option]

    def read(self, word: str) -> Iterator[Derivation]:
        """The derivations after the word: one for each way to write it."""
        if self.unread:
            if self.unread[0][0] == word:
                yield from self._replace(unread=self.unread[1:]).with_silent_options()
        elif self.choice is not None:
            options = _options_of(self.telling, self.choice)
            yield from self._take(options.by_word.get(word, []), words_read=1)

    def with_silent_options(self) -> Iterator[Derivation]:
        """This derivation, and those of its silent options."""
        yield self
        if not self.unread and self.choice is not None:
            yield from self._take(_options_of(self.telling, self.choice).silent, words_read=0)

    def _take(self, options: Sequence[int], words_read: int) -> Iterator[Derivation]:
        """The derivations in which one of these options is taken."""
        choice = self.choice
        assert choice is not None
        for option in options:
            if option not in choice.banned:
                telling = self.telling.fork()
                telling.take(choice, option)
                prob = self.prob / choice.weight_left * choice.weighted.weights[option]
                yield from _derivations(telling, prob, words_read)


def _derivations(telling: Telling, prob: float, words_read: int = 0) -> Iterator[Derivation]:
    """Continue to the next choice. words_read: how many of the words told here have been read."""
    choice = telling.advance()
    words: Words = ()
    for piece, origin in zip(telling.pieces, telling.origins, strict=True):
        words += _words_of(piece, origin)
    yield from Derivation(prob, words[words_read:], telling, choice).with_silent_options()


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
    """The article that a story has before a word."""
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

    A derivation has ARTICLE where a story has "a" or, before a vowel sound, "an". So each of the
    two has the total probability of the words after ARTICLE that agree with it, and only these words
    can follow it.

    log_prob: ln P of the words read so far, in nats.
    """

    def __init__(self) -> None:
        self.log_prob = 0.0
        self._prob = 1.0  # of the words read so far
        self._derivations = list(_derivations(Telling([Call("story")]), 1.0))
        self._after_article: list[Derivation] = []
        self._next = self._look_ahead("")

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
        if word in ARTICLES:
            self._derivations = self._after_article
        else:
            self._derivations = _read(self._derivations, word)
        self._next = self._look_ahead(word)
        return True

    def _look_ahead(self, last: str) -> NextWords:
        """The distribution of the word after `last`."""
        sums, kinds = _sums(self._derivations, last)
        kind = max(kinds, key=kinds.__getitem__, default="end")
        if ARTICLE in sums:
            del sums[ARTICLE]
            self._after_article = _read(self._derivations, ARTICLE)
            sums |= _articles(self._after_article)
        probs = {word: prob / self._prob for word, prob in sums.items()}
        return NextWords(probs, "fixed" if kind == "plot" and len(probs) == 1 else kind)


def _articles(after_article: Iterable[Derivation]) -> dict[str, float]:
    """The probabilities of "a" and "an": each is the sum over the next words that agree with it."""
    sums, _ = _sums(after_article, "")
    articles: defaultdict[str, float] = defaultdict(float)
    for word, prob in sums.items():
        articles[_article(word)] += prob
    return articles


def _read(derivations: Iterable[Derivation], word: str) -> list[Derivation]:
    return [after for derivation in derivations for after in derivation.read(word)]


def _sums(
    derivations: Iterable[Derivation], last: str
) -> tuple[defaultdict[str, float], defaultdict[str, float]]:
    """Probabilities of the next words, and of their kinds.

    last: the word before them; after an article, only words that agree with it count.
    """
    sums: defaultdict[str, float] = defaultdict(float)
    kinds: defaultdict[str, float] = defaultdict(float)
    after_article = last in ARTICLES
    for derivation in derivations:
        for word, kind, prob in derivation.next_words():
            if not after_article or last == _article(word):
                sums[word] += prob
                kinds[kind] += prob
    return sums, kinds


@dataclass(frozen=True)
class Impossible:
    """The first word of a text that the generator cannot write there.

    words: the number of possible words before it. word: END if the text ends there. kind: what
    the generator chooses there. expected: the words most probable there, at most five.
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


def read_text(prompt: str, continuation: str, ended: bool) -> tuple[int, Impossible | None] | None:
    """(words read, the first impossible one or None) of a continuation; None for an impossible prompt.

    It is read to its first impossible word, which counts as read, or to an `<unk>`.
    """
    readable, unknown, _ = continuation.partition("<unk>")
    start = len(normalise(prompt).split())
    words = normalise(f"{prompt} {readable}").split()
    found = first_impossible(words, ended and not unknown)
    if found is None:
        return len(words) - start, None
    return (found.words - start + 1, found) if found.words >= start else None
