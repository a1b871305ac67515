"""Fresh stories with the generator's own facts, and the kinds of position at which a study looks for them.

Facts are the hero, the hero's gender, the place, the number of the food ("pears", "honey") and what comes next: the kind of
the next word. A kind of position is, from the first mention of the fact on:

- at: the last word of a mention;
- before: the word before a mention;
- pronoun: the word before a pronoun that agrees with the hero;
- other: another word, if it does not say the gender itself, as "she" and "girl" do.

The next kind is looked for after an article, which does not give it away, and after other words.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tinylm.storybook.corpus import Sampler, Telling, sample_telling
from tinylm.storybook.lexicon import Entry
from tinylm.storybook.world import storybook

WORLD = storybook()
SEED = "studies.beliefs 1"  # the corpus is drawn with other seeds
DRAWN = 12_000
CLASSES = 10  # heroes and places that are told apart: the most frequent ones of one word
SLOT_OF = {"gender": "hero", "number": "food", "hero": "hero", "place": "place"}
FACTS = (*SLOT_OF, "next")
FORMS = ("he", "him", "his", "himself")  # parts of the hero's entry


class Word(NamedTuple):
    """A word of a story, its kind, the piece that it is from with its origin, and whether it ends the piece."""

    text: str
    kind: str
    piece: str
    origin: str
    is_last: bool


class Story(NamedTuple):
    words: list[Word]
    facts: dict[str, Entry]

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)


def story_of(telling: Telling) -> Story:
    """The words of a telling that is finished."""
    texts = iter(WORLD.words_of_telling(telling.pieces, telling.origins))
    words = []
    for piece, origin in zip(telling.pieces, telling.origins, strict=True):
        kinds = [kind for _, kind in WORLD.words_of(piece, origin)]
        for number, kind in enumerate(kinds, start=1):
            words.append(Word(next(texts), kind, piece, origin, number == len(kinds)))
    return Story(words, telling.facts)


def draw(count: int = DRAWN) -> list[Story]:
    """The first fresh stories; the same in every call."""
    sampler = Sampler(SEED)
    return [story_of(sample_telling(sampler)) for _ in range(count)]


def label_of(story: Story, fact: str, number: int) -> str:
    """The fact at a word of the story. Only what comes next depends on the word."""
    if fact == "next":
        return story.words[number + 1].kind
    entry = story.facts[SLOT_OF[fact]]
    if fact == "number":
        return "plural" if entry[""].endswith("s") else "singular"
    return entry["he"] if fact == "gender" else entry[""]


def _position_of(word: Word, following: Word, fact: str, facts: dict[str, Entry]) -> str:
    """The kind of position of a word; "" if it is none."""
    if fact == "next":
        return "article" if word.text in ("a", "an", "the") else "other"
    slot = SLOT_OF[fact]
    mention = (facts[slot][""], WORLD.slots[slot].kind)
    if (word.piece, word.origin) == mention:
        return "at" if word.is_last else ""
    if word.origin.startswith("child."):
        return ""
    if (following.piece, following.origin) == mention:
        return "before"
    pronouns = {(facts["hero"][part], f"child.{part}") for part in FORMS}
    is_pronoun = slot == "hero" and (following.piece, following.origin) in pronouns
    return "pronoun" if is_pronoun else "other"


def positions(story: Story, fact: str) -> dict[str, list[int]]:
    """The numbers of the words at each kind of position."""
    found: dict[str, list[int]] = {}
    for number, (word, following) in enumerate(pairwise(story.words)):
        kind = _position_of(word, following, fact, story.facts)
        if kind and (fact == "next" or kind == "at" or "at" in found):
            found.setdefault(kind, []).append(number)
    return found


def stories_with(fact: str, drawn: Sequence[Story]) -> list[Story]:
    """The drawn stories that have the fact; of heroes and places, one of the most frequent."""
    if fact == "next":
        return list(drawn)
    having = [story for story in drawn if SLOT_OF[fact] in story.facts]
    if fact not in ("hero", "place"):
        return having
    counts = Counter(label_of(story, fact, 0) for story in having)
    names = [name for name, _ in counts.most_common() if " " not in name][:CLASSES]
    return [story for story in having if label_of(story, fact, 0) in names]
