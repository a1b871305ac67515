"""Does a text make sense in the storybook's world? The generator says where it first cannot, and of which kind that is.

A text makes sense as far as some story begins with its words; the first word with which no story goes on is its first
impossible word. Nothing is sampled for that: every way to tell the words is tried (`scorer.reach`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from tinylm.storybook.chooser import Sampler
from tinylm.storybook.lexicon.kinds import KINDS
from tinylm.storybook.scorer import reach, words_of
from tinylm.storybook.telling import told

GROUPS = {
    "person": "child kin elder rel job",
    "animal": "animal far fur petname",
    "thing": """thing look cloth fabric rug tool trouble food taste dish dishtaste goods build seed wild junk instrument
    treat""",
    "place": "village outside inside home shed air",
}
MEANING = {
    "person": "somebody else, or another pronoun, than the story has there",
    "animal": "another animal than the story's, or what does not suit it",
    "thing": "another thing than the one that the story is about, or what does not go with it",
    "place": "another place than the one where the story is",
    "detail": "something else that the story has said otherwise: a hobby, a day, a feeling",
    "plot": "what some story says, but not after this beginning",
    "grammar": "a word that no story has after the two words before it",
    "end": "the text ends before its plot does, or goes on after it",
}
SAMPLE = 4000  # stories whose word triples are known
_SHOWN = 5  # words in `expected`
Tags = tuple[str, str, str]


@dataclass(frozen=True)
class Verdict:
    """How far a text makes sense.

    words: how many of its first words some story begins with; word: the next, impossible one, "" if the text ends
    there; kind: a key of MEANING, "" if nothing is impossible; expected: up to five of the words that stories have in
    its place, "" for their end.
    """

    words: int
    word: str = ""
    kind: str = ""
    expected: tuple[str, ...] = ()


def judge(words: Sequence[str], ended: bool) -> Verdict:
    """The verdict on a text's words (lower case, letters only); ended: it is said to end with the last of them."""
    known, instead = reach(words, ended)
    if not instead:
        return Verdict(known)
    word = words[known] if known < len(words) else ""
    expected = sorted({expected for expected, _ in instead})
    return Verdict(known, word, _kind(words[:known], word, instead), tuple(expected[:_SHOWN]))


def _kind(before: Sequence[str], word: str, instead: set[tuple[str, str]]) -> str:
    """What is impossible about a word after those before it, given the (word, origin) pairs that are possible."""
    if not word or instead == {("", "")}:
        return "end"
    found = {_group(origin) for _, origin in instead if origin and word in _said_for(origin)}
    for group in MEANING:
        if group in found:
            return group
    tags, triples = _triples()
    a, b, c = (tags.get(each, each) for each in ["", "", *before, word][-3:])
    return "plot" if (a, b, c) in triples else "grammar"


def _group(origin: str) -> str:
    kind = origin.partition(".")[0].partition(":")[0]
    return next((group for group, kinds in GROUPS.items() if kind in kinds.split()), "detail")


@cache
def _said_for(origin: str) -> frozenset[str]:
    """Every word that entries of the origin's group have in the same part; of the origin's own kind if it is a
    detail."""
    kind, _, part = origin.partition(".")
    group = GROUPS.get(_group(origin), kind.partition(":")[0]).split()
    entries = (
        entry
        for key, listed in KINDS.items()
        if key.partition(":")[0] in group
        for entry in listed.options
    )
    return frozenset(word for entry in entries for word in words_of(entry.parts.get(part, "")))


@cache
def _triples() -> tuple[dict[str, str], frozenset[Tags]]:
    """(each entry word's tag, the triples of tags that stand in a row in SAMPLE stories).

    Words of the lexicon are tagged by the lists that have them, so that a triple is known for each name, not only for
    those that were drawn. A word of the generator's own phrases is its own tag.
    """
    stories = [list(_words_with_lists(str(number))) for number in range(SAMPLE)]
    lists: dict[str, set[str]] = {}
    for kind, listed in KINDS.items():
        for entry in listed.options:
            for part, text in entry.parts.items():
                for word in words_of(text):
                    lists.setdefault(word, set()).add(f"{kind}.{part}")
    phrases = {word for story in stories for word, origin in story if not origin}
    tags = {word: " ".join(sorted(found)) for word, found in lists.items() if word not in phrases}
    triples: set[Tags] = set()
    for story in stories:
        row = ["", "", *(tags.get(word, word) for word, _ in story)]
        triples.update(zip(row, row[1:], row[2:], strict=False))
    return tags, frozenset(triples)


def _words_with_lists(seed: str) -> Iterator[tuple[str, str]]:
    """The words of a story, each with its origin."""
    telling = told(Sampler(f"sense {seed}"))
    for piece, origin in zip(telling.pieces, telling.origins, strict=True):
        for word in words_of(piece):
            yield word, origin
