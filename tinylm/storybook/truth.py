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
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tinylm.storybook.corpus import Choice, Telling
from tinylm.storybook.grammar import Call
from tinylm.storybook.language import END, Sound
from tinylm.storybook.lexicon import Weighted
from tinylm.storybook.world import START, World, storybook

Words = tuple[tuple[str, str], ...]  # (word, kind)
RESCALE_BELOW = 2.0**-700  # a probability, before it underflows
RESCALE_BY = 2.0**600  # a power of two, which changes no digit


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
            words = telling.world.words_of(*telling.first_piece(choice, option))
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
    form: the form that the last word was read in, if it has two; only words that agree can follow.
    """

    prob: float
    unread: Words
    telling: Telling
    choice: Choice | None
    form: tuple[Sound, str] | None = None

    def allows(self, word: str) -> bool:
        """Whether a word agrees with the form of the word before it."""
        return self.form is None or self.form[0].form(word) == self.form[1]

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

    def probs_of(self, word: str) -> Iterator[float]:
        """P(the words read and this one), for each way to write it next: a part of `next_words`."""
        choice = self.choice
        if not self.allows(word):
            return
        if self.unread or choice is None:
            next_word = self.unread[0][0] if self.unread else END
            if next_word == word:
                yield self.prob
        else:
            share = self.prob / choice.weight_left
            for option in _options_of(self.telling, choice).by_word.get(word, []):
                if option not in choice.banned:
                    yield share * choice.weighted.weights[option]

    def read(self, word: str) -> list[Derivation]:
        """The derivations after the word: one for each way to write it."""
        if not self.allows(word):
            return []
        if self.unread:
            if self.unread[0][0] != word:
                return []
            rest = Derivation(self.prob, self.unread[1:], self.telling, self.choice)
            return rest.with_silent_options()
        if self.choice is None:
            return []
        options = _options_of(self.telling, self.choice)
        return self._take(options.by_word.get(word, []), words_read=1)

    def with_silent_options(self) -> list[Derivation]:
        """This derivation, and those of its silent options."""
        if self.unread or self.choice is None:
            return [self]
        silent = _options_of(self.telling, self.choice).silent
        return [self, *self._take(silent, words_read=0)]

    def _take(self, options: Sequence[int], words_read: int) -> list[Derivation]:
        """The derivations in which one of these options is taken."""
        choice = self.choice
        assert choice is not None
        derivations = []
        for option in options:
            if option not in choice.banned:
                telling = self.telling.fork()
                telling.take(choice, option)
                prob = self.prob / choice.weight_left * choice.weighted.weights[option]
                derivations += _derivations(telling, prob, words_read)
        return derivations


def _derivations(telling: Telling, prob: float, words_read: int = 0) -> list[Derivation]:
    """Continue to the next choice. words_read: how many of the words told here have been read."""
    choice = telling.advance()
    words: Words = ()
    for piece, origin in zip(telling.pieces, telling.origins, strict=True):
        words += telling.world.words_of(piece, origin)
    return Derivation(prob, words[words_read:], telling, choice).with_silent_options()


@dataclass(frozen=True)
class NextWords:
    """The possible next words with their probabilities, and the kind of choice that the generator makes.

    kind: a key of `World.meaning`, the most probable one.
    """

    probs: dict[str, float]
    kind: str


class Truth:
    """Reads a story word by word (in the form of `World.normalise`), and knows what can follow.

    A word that changes before others, as "a" becomes "an", is one word in a derivation. So each of
    its forms has the total probability of the following words that agree with it, and only these
    can follow it.

    world: by default the storybook. log_prob: ln P of the words read so far, in nats.
    """

    def __init__(self, world: World | None = None) -> None:
        self.world = world or storybook()
        self.log_prob = 0.0
        self._prob = 1.0  # of the words read so far
        self._derivations = _derivations(Telling(self.world, [Call(START)]), 1.0)
        self._after_sounds: list[tuple[Sound, list[Derivation]]] = []  # set by `_look_ahead`
        self._next: NextWords | None = None  # until somebody asks

    def next_words(self) -> NextWords:
        """The generator's distribution of the next word, END for the end of the story."""
        if self._next is None:
            self._next = self._look_ahead()
        return self._next

    def read(self, word: str) -> float:
        """Read the next word, or END; returns its probability. If that is 0, nothing is read."""
        prob = self._prob_of(word)
        if prob == 0.0:
            return 0.0
        self.log_prob += math.log(prob)
        self._prob *= prob
        derivations = _read(self._derivations, word)
        for sound, after in self._after_sounds:
            if word in (sound.plain, sound.changed):
                derivations += [each._replace(form=(sound, word)) for each in after]
        if self._prob < RESCALE_BELOW:  # a long story
            self._prob *= RESCALE_BY
            derivations = [each._replace(prob=each.prob * RESCALE_BY) for each in derivations]
        self._derivations = derivations
        self._next = None
        return prob

    def _prob_of(self, word: str) -> float:
        """The probability of a next word, without those of the others where they are not needed."""
        if self._next is not None or self._has_forms(word):
            return self.next_words().probs.get(word, 0.0)
        total = 0.0
        for derivation in self._derivations:
            for prob in derivation.probs_of(word):
                total += prob
        return total / self._prob

    def _has_forms(self, word: str) -> bool:
        """Whether the word has two forms, such as a and an: the words that can follow decide their probabilities."""
        sounds = self.world.sounds.values()
        return any(word in (sound.plain, sound.changed, sound.either) for sound in sounds)

    def _look_ahead(self) -> NextWords:
        """The distribution of the next word; sets `_after_sounds`, which `read` needs."""
        sums, kinds = _sums(self._derivations)
        kind = max(kinds, key=kinds.__getitem__, default="end")
        self._after_sounds = []
        for sound in self.world.sounds.values():
            if sums.pop(sound.either, 0.0):
                after = _read(self._derivations, sound.either)
                self._after_sounds.append((sound, after))
                for form, prob in _forms(sound, after).items():
                    sums[form] += prob
        probs = {word: prob / self._prob for word, prob in sums.items()}
        return NextWords(probs, "fixed" if kind == "plot" and len(probs) == 1 else kind)


def _forms(sound: Sound, after: Iterable[Derivation]) -> dict[str, float]:
    """The probability of each form: the sum over the next words that agree with it."""
    sums, _ = _sums(after)
    forms: defaultdict[str, float] = defaultdict(float)
    for word, prob in sums.items():
        forms[sound.form(word)] += prob
    return forms


def _read(derivations: Iterable[Derivation], word: str) -> list[Derivation]:
    return [after for derivation in derivations for after in derivation.read(word)]


def _sums(
    derivations: Iterable[Derivation],
) -> tuple[defaultdict[str, float], defaultdict[str, float]]:
    """Probabilities of the next words that agree with the word before, and of their kinds."""
    sums: defaultdict[str, float] = defaultdict(float)
    kinds: defaultdict[str, float] = defaultdict(float)
    for derivation in derivations:
        for word, kind, prob in derivation.next_words():
            if derivation.form is None or derivation.allows(word):
                sums[word] += prob
                kinds[kind] += prob
    return sums, kinds


@dataclass(frozen=True)
class Impossible:
    """The first word of a text that the generator cannot write there.

    position: its number in the text, from 0. word: END if the text ends there. kind: of the words
    that the generator can choose there. expected: the words most probable there, at most five.
    """

    position: int
    word: str
    kind: str
    expected: tuple[str, ...]


def first_impossible(
    words: Sequence[str], ended: bool, world: World | None = None
) -> Impossible | None:
    """The first word with probability 0, or None. ended: END follows the words."""
    truth = Truth(world)
    for position, word in enumerate([*words, END] if ended else words):
        following = truth.next_words()
        if not truth.read(word):
            likeliest = sorted(following.probs, key=following.probs.__getitem__, reverse=True)
            return Impossible(position, word, following.kind, tuple(likeliest[:5]))
    return None


def _ends_inside_a_word(words: Sequence[str], world: World) -> bool:
    """Whether the last word is impossible as it stands but may be the beginning of a possible one."""
    found = first_impossible(words, False, world)
    if found is None or found.position != len(words) - 1:
        return False
    truth = Truth(world)
    for word in words[:-1]:
        truth.read(word)
    return any(possible.startswith(words[-1]) for possible in truth.next_words().probs)


def read_text(
    prompt: str, continuation: str, ended: bool, world: World, pieces: bool = False
) -> tuple[int, Impossible | None] | None:
    """(words read, the first impossible one or None) of a continuation; None for an impossible prompt.

    The continuation is read to its first impossible word, which counts as read, or to an `<unk>`.
    pieces: tokens are pieces of words. Then the prompt may end inside a word, which counts as the
    continuation's, and a continuation that has not `ended` may stop inside one, which is not read.
    """
    readable, unknown, _ = continuation.partition("<unk>")
    of_prompt = world.normalise(prompt).split()
    text = f"{prompt}{readable}" if pieces else f"{prompt} {readable}"
    words = world.normalise(text).split()
    is_cut = bool(unknown) or not ended
    if pieces and is_cut and words and not text[-1].isspace():
        words.pop()
    start = len(of_prompt)
    if pieces and (words[:start] != of_prompt or _ends_inside_a_word(of_prompt, world)):
        start -= 1
    found = first_impossible(words, ended and not unknown, world)
    if found is None:
        return len(words) - start, None
    return None if found.position < start else (found.position - start + 1, found)
