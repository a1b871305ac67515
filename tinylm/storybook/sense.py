"""Does a text make sense in the storybook's world, and if not, where does it fail?

A text makes sense as far as some story begins with its words. The next word is its first impossible
word. Nothing is sampled: every way to tell the words is tried.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from tinylm.storybook.corpus import Sampler, sample_telling
from tinylm.storybook.lexicon import KINDS
from tinylm.storybook.scorer import Options, reach, words_of

GROUPS = {  # kinds of the lexicon whose words may be taken for each other
    "person": "child kin elder rel job",
    "animal": "animal far fur petname",
    "thing": "thing look cloth fabric rug tool trouble food taste dish dishtaste goods build seed "
    "wild junk instrument treat",
    "place": "village outside inside home shed air",
}
MEANING = {  # of each kind of error
    "person": "the wrong person, or a pronoun that does not fit",
    "animal": "the wrong animal, or something that does not suit it",
    "thing": "the wrong thing, or something that does not go with it",
    "place": "the wrong place",
    "detail": "a hobby, day or feeling that contradicts the story",
    "plot": "what some story says, but not after this beginning",
    "grammar": "a word that no story has after the two words before it",
    "end": "the text ends before its plot does, or goes on after it",
}
SAMPLE = 4000  # stories whose word triples count as grammatical
Tags = tuple[str, str, str]


@dataclass(frozen=True)
class Verdict:
    """How far a text makes sense.

    words: number of its first words that some story begins with. word: the next, impossible one; ""
    if the text ends there. kind: a key of MEANING, "" if nothing is impossible. expected: up to five
    of the words that stories have instead, "" for their end.
    """

    words: int
    word: str = ""
    kind: str = ""
    expected: tuple[str, ...] = ()


def judge(words: Sequence[str], ended: bool) -> Verdict:
    """The verdict on words (lower case, letters only); ended: the text ends with the last one."""
    possible, instead = reach(words, ended)
    if not instead:
        return Verdict(possible)
    word = words[possible] if possible < len(words) else ""
    expected = sorted({expected for expected, _ in instead})
    kind = _kind(words[:possible], word, instead)
    return Verdict(possible, word, kind, tuple(expected[:5]))


def _kind(before: Sequence[str], word: str, instead: Options) -> str:
    """What is impossible about a word, given the (word, origin) pairs that are possible there."""
    if not word or instead == {("", "")}:
        return "end"
    groups = set()
    for _, origin in instead:
        if origin and word in _group_words(origin):
            groups.add(_group(origin))
    for group in MEANING:
        if group in groups:
            return group
    first, second, third = ["", "", *before, word][-3:]
    triple = (tag_of(first), tag_of(second), tag_of(third))
    return "plot" if triple in grammatical_triples() else "grammar"


def _group(origin: str) -> str:
    kind = origin.partition(".")[0].partition(":")[0]
    for group, kinds in GROUPS.items():
        if kind in kinds.split():
            return group
    return "detail"


@cache
def _group_words(origin: str) -> frozenset[str]:
    """Every word that the origin's group (for a detail, its kind) has in the same part."""
    kind, _, part = origin.partition(".")
    group = GROUPS.get(_group(origin), kind.partition(":")[0]).split()
    words: set[str] = set()
    for name, listed in KINDS.items():
        if name.partition(":")[0] in group:
            for entry in listed.options:
                words.update(words_of(entry.get(part, "")))
    return frozenset(words)


@cache
def _sample() -> list[list[tuple[str, str]]]:
    """The (word, origin) pairs of SAMPLE stories."""
    stories = []
    for number in range(SAMPLE):
        telling = sample_telling(Sampler(f"sense {number}"))
        pairs = []
        for piece, origin in zip(telling.pieces, telling.origins, strict=True):
            pairs += [(word, origin) for word in words_of(piece)]
        stories.append(pairs)
    return stories


@cache
def _tags() -> dict[str, str]:
    """The lists that have each word of the lexicon, without the words of the generator's phrases."""
    lists: dict[str, set[str]] = defaultdict(set)
    for kind, listed in KINDS.items():
        for entry in listed.options:
            for part, text in entry.items():
                for word in words_of(text):
                    lists[word].add(f"{kind}.{part}")
    for story in _sample():
        for word, origin in story:
            if not origin:
                lists.pop(word, None)
    return {word: " ".join(sorted(names)) for word, names in lists.items()}


def tag_of(word: str) -> str:
    """The lists that have a word, so that each name counts as every other one; or the word itself."""
    return _tags().get(word, word)


@cache
def grammatical_triples() -> frozenset[Tags]:
    """The tags of any three words in a row of the sample; before a story are two empty ones."""
    triples: set[Tags] = set()
    for story in _sample():
        row = ["", "", *(tag_of(word) for word, _ in story)]
        triples.update(zip(row, row[1:], row[2:], strict=False))
    return frozenset(triples)
