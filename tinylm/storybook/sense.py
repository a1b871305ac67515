"""The judge: does a text make sense in the storybook's world, and if not, where does it fail?

A text makes sense as far as some story begins with its words. The first word with which no story
goes on is its first impossible word. Nothing is sampled: every way to tell the words is tried.
"""

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
    "person": "somebody else, or another pronoun, than the story has there",
    "animal": "another animal than the story's, or what does not suit it",
    "thing": "another thing than the one that the story is about, or what does not go with it",
    "place": "another place than the one where the story is",
    "detail": "something else that the story has said otherwise: a hobby, a day, a feeling",
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
    tags, triples = _triples()
    last_three = ["", "", *before, word][-3:]
    triple = tuple(tags.get(each, each) for each in last_three)
    return "plot" if triple in triples else "grammar"


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
def _triples() -> tuple[dict[str, str], frozenset[Tags]]:
    """(the lists that have each word of the lexicon, the triples of tags in SAMPLE stories).

    So a triple counts for every name. A word of the generator's phrases is its own tag.
    """
    stories = [_words_with_origins(f"sense {number}") for number in range(SAMPLE)]
    lists: dict[str, set[str]] = {}
    for kind, listed in KINDS.items():
        for entry in listed.options:
            for part, text in entry.items():
                for word in words_of(text):
                    lists.setdefault(word, set()).add(f"{kind}.{part}")
    phrases: set[str] = set()
    for story in stories:
        phrases.update(word for word, origin in story if not origin)
    tags = {}
    for word in lists.keys() - phrases:
        tags[word] = " ".join(sorted(lists[word]))
    triples: set[Tags] = set()
    for story in stories:
        row = ["", "", *(tags.get(word, word) for word, _ in story)]
        triples.update(zip(row, row[1:], row[2:], strict=False))
    return tags, frozenset(triples)


def _words_with_origins(seed: str) -> list[tuple[str, str]]:
    telling = sample_telling(Sampler(seed))
    pairs = []
    for piece, origin in zip(telling.pieces, telling.origins, strict=True):
        pairs += [(word, origin) for word in words_of(piece)]
    return pairs
