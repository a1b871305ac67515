"""How far a text makes sense: whole stories and their openings do; one changed word is found, and its kind named."""

import random

import pytest

from tinylm.storybook.corpus import generate, normalise
from tinylm.storybook.lexicon import KINDS
from tinylm.storybook.scorer import reach, score, words_of
from tinylm.storybook.sense import GROUPS, MEANING, judge

STORIES = [normalise(story.text).split() for story in generate(12, 1, 3)[0]]
FOUND = (
    "june was a hopeful girl from birchville she had a talkative cousin named ella one dull saturday june found a "
    "gleaming ring"
)


def test_every_story_and_every_opening_of_one_makes_sense():
    for words in STORIES:
        assert judge(words, True) == judge(words, False)
        assert judge(words, True).kind == ""
        for end in range(0, len(words), 17):
            found = judge(words[:end], False)
            assert (found.words, found.kind, found.word, found.expected) == (end, "", "", ())


def test_a_story_that_ends_too_soon_or_goes_on_is_one_of_end():
    words = STORIES[0]
    early = judge(words[:-3], True)
    assert (early.words, early.word, early.kind) == (len(words) - 3, "", "end")
    assert words[-3] in early.expected
    late = judge([*words, "the"], False)
    assert (late.words, late.word, late.kind, late.expected) == (len(words), "the", "end", ("",))


@pytest.mark.parametrize(
    ("text", "word", "kind", "instead"),
    [
        ("june was a hopeful girl from birchville", "he", "person", "she"),
        (
            "june was a hopeful girl from birchville she had a talkative cousin named",
            "june",
            "person",
            "ella",
        ),
        (f"{FOUND} i will hide the gleaming", "kite", "thing", "ring"),
        ("june was a hopeful girl", "who", "plot", "from"),
        ("long ago a thoughtful boy called", "the", "grammar", "tom"),
        ("long ago a thoughtful boy called", "wendy", "person", "tom"),
        ("once upon a time", "once", "grammar", "there"),
    ],
)
def test_the_first_impossible_word_and_its_kind(text, word, kind, instead):
    words = text.split()
    assert judge(words, False).kind == ""
    found = judge([*words, word, "and", "more"], False)
    assert (found.words, found.word, found.kind) == (len(words), word, kind)
    assert instead in {expected for expected, _ in reach([*words, word], False)[1]}
    assert set(found.expected) <= {expected for expected, _ in reach([*words, word], False)[1]}
    assert len(found.expected) <= 5


def test_a_sentence_that_another_story_has_there_is_one_of_plot():
    words = FOUND.split()
    found = judge([*words, "behind", "the"], False)
    assert (found.words, found.word, found.kind) == (len(words), "behind", "plot")


def test_what_the_generator_gives_no_probability_never_makes_sense_to_its_end():
    """`score` and `judge` are two questions about the same tellings: they agree on each text, changed or not."""
    rng = random.Random(1)
    for words in STORIES:
        changed = list(words)
        place = rng.randrange(len(words))
        changed[place] = rng.choice(rng.choice(STORIES))
        for text in (words, changed, words[:place]):
            possible = judge(text, True).kind == ""
            assert possible == (score(" ".join(text))[1] > 0)


def test_reach_names_every_word_that_can_stand_there():
    """The words that stories have after an opening are exactly those that `judge` lets stand there."""
    words = STORIES[1]
    place = len(words) // 2
    _, instead = reach([*words[:place], "zzz"], False)
    known = {word for word, _ in instead}
    assert words[place] in known
    vocabulary = {word for story in STORIES for word in story}
    allowed = {word for word in vocabulary if judge([*words[:place], word], False).kind == ""}
    assert allowed == known & vocabulary


def test_an_is_read_as_a():
    words = next(words for words in STORIES if "an" in words)
    assert judge(words, True).kind == ""
    assert "an" not in words_of("an apple")


def test_kinds_and_groups_are_those_of_the_lexicon():
    lists = {kind.partition(":")[0] for kind in KINDS}
    named = [kind for kinds in GROUPS.values() for kind in kinds.split()]
    assert len(named) == len(set(named))
    assert set(named) <= lists
    assert set(GROUPS) < set(MEANING)
