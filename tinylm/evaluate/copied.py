"""What texts share with stories, word for word: their longest runs, new n-grams, the nearest story.

Exact, without hashing: an n-gram is searched, in the texts and in train, only where its first n - 1 words occur in
both, so few places soon remain. Train is read once, in chunks; memory does not grow with it.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

ORDERS = tuple(range(1, 9))
NEAR = 4  # the n-grams that decide which story is nearest
CHUNK_WORDS = 1 << 20


@dataclasses.dataclass(frozen=True)
class Copied:
    """What one text shares with train. Stories are numbered from 0.

    longest: words of the longest run that occurs inside one story of train; `run` is the first such in the text,
    `run_story` the first story that contains it (None if no word is known). new: for each n of ORDERS (n-grams of the
    text that train lacks, all n-grams of the text). nearest: the first story that contains most of the text's different
    `NEAR`-grams; overlap: the share of them that it contains (None and 0.0 if no story contains one).
    """

    words: int
    longest: int
    run: str
    run_story: int | None
    new: dict[int, tuple[int, int]]
    nearest: int | None
    overlap: float


class _Texts:
    """The words of all texts end to end (W,) by number, and the matches so far."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        self.words = texts
        self.number: dict[str, int] = {}
        ids = [
            self.number.setdefault(word, len(self.number)) for words in self.words for word in words
        ]
        lengths = np.array([len(words) for words in self.words], dtype=np.int64)
        self.ids = np.array(ids, dtype=np.int64)
        self.ends = np.cumsum(lengths)
        self.text = np.repeat(np.arange(len(lengths)), lengths)  # (W,) which text a word is of
        self.longest = np.zeros(
            len(ids), dtype=np.int64
        )  # (W,) words from here on that occur in one story
        self.story = np.full(len(ids), -1)  # (W,) the first story that contains them
        self.shared = np.zeros(
            len(lengths), dtype=np.int64
        )  # NEAR-grams that the nearest story contains
        self.nearest = np.full(len(lengths), -1)


def copied(texts: Sequence[Sequence[str]], stories: Iterable[Sequence[str]]) -> list[Copied]:
    """Compare texts with the stories of train, all of them as words; no run crosses the end of a story or text."""
    wanted = _Texts(texts)
    for first, words, lengths in _chunks(stories, wanted.number):
        _match(wanted, words, lengths, first)
    return [_result(wanted, number) for number in range(len(texts))]


def _chunks(
    stories: Iterable[Sequence[str]], number: dict[str, int]
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(number of the first story, words of whole stories by the texts' numbering or -1, words of each story)."""
    first = 0
    words: list[int] = []
    lengths: list[int] = []
    for story in stories:
        found = [number.get(word, -1) for word in story]
        words += found
        lengths.append(len(found))
        if len(words) >= CHUNK_WORDS:
            yield first, np.array(words, dtype=np.int64), np.array(lengths)
            first, words, lengths = first + len(lengths), [], []
    if lengths:
        yield first, np.array(words, dtype=np.int64), np.array(lengths)


def _match(wanted: _Texts, words: np.ndarray, lengths: np.ndarray, first: int) -> None:
    """Follow the texts' n-grams through one chunk, n = 1, 2, ... until none are left.

    `own` and `at` are places in the texts and in the chunk where an n-gram of both begins, `names` and `found` its
    number among them.
    """
    story = np.repeat(np.arange(len(lengths)), lengths)
    ends = np.cumsum(lengths)[story]
    own, at = np.arange(len(wanted.ids)), np.flatnonzero(words >= 0)
    names, found, grams = wanted.ids, words[at], len(wanted.number)
    n = 1
    while len(at):
        holder = np.full(grams, -1)
        holder[found[::-1]] = story[
            at[::-1]
        ]  # of equal numbers the last one written remains: the first story
        common = holder[names] >= 0
        own, names = own[common], names[common]
        longer = wanted.longest[own] < n
        wanted.longest[own[longer]], wanted.story[own[longer]] = n, first + holder[names[longer]]
        if n == NEAR:
            _nearest(wanted, own, names, story[at], found, first)
        n += 1
        own, names = _with_room(own, names, wanted.ends[wanted.text[own]], n)
        at, found = _with_room(at, found, ends[at], n)
        keys, names = np.unique(
            names * len(wanted.number) + wanted.ids[own + n - 1], return_inverse=True
        )
        grams, last = len(keys), words[at + n - 1]
        if not grams:
            return
        wanted_keys = np.where(last >= 0, found * len(wanted.number) + last, -1)
        places = np.minimum(np.searchsorted(keys, wanted_keys), grams - 1)
        same = keys[places] == wanted_keys
        at, found = at[same], places[same]


def _with_room(
    at: np.ndarray, names: np.ndarray, ends: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """The places with n words before the text's end, and their names."""
    room = at + n <= ends
    return at[room], names[room]


def _nearest(
    wanted: _Texts,
    own: np.ndarray,
    names: np.ndarray,
    story: np.ndarray,
    found: np.ndarray,
    first: int,
) -> None:
    """Record the chunk's story with most of a text's different n-grams, if it has more than any before."""
    count = int(story.max()) + 1
    pairs = np.unique(found * count + story)
    gram, holders = pairs // count, pairs % count
    for number in np.unique(wanted.text[own]):
        of_text = np.unique(names[wanted.text[own] == number])
        starts, ends = np.searchsorted(gram, of_text), np.searchsorted(gram, of_text, "right")
        counts = np.bincount(np.concatenate([holders[a:b] for a, b in zip(starts, ends)]))
        place = int(counts.argmax())
        if counts[place] > wanted.shared[number]:
            wanted.shared[number], wanted.nearest[number] = counts[place], first + place


def _result(wanted: _Texts, number: int) -> Copied:
    words = wanted.words[number]
    here = slice(int(wanted.ends[number]) - len(words), int(wanted.ends[number]))
    longest, story = wanted.longest[here], wanted.story[here]
    most = int(longest.max(initial=0))
    place = int(longest.argmax()) if most else 0
    begun = {n: longest[: max(len(words) - n + 1, 0)] for n in ORDERS}
    different = len({tuple(words[i : i + NEAR]) for i in range(len(words) - NEAR + 1)})
    near = int(wanted.nearest[number])
    return Copied(
        words=len(words),
        longest=most,
        run=" ".join(words[place : place + most]),
        run_story=int(story[place]) if most else None,
        new={n: (int((runs < n).sum()), len(runs)) for n, runs in begun.items()},
        nearest=near if near >= 0 else None,
        overlap=int(wanted.shared[number]) / different if different else 0.0,
    )
