"""How far a text makes sense, compared with what the scorer says about the same texts."""

import random

import pytest

from tinylm.storybook.corpus import generate, normalise
from tinylm.storybook.scorer import parse_all, reach, words_of
from tinylm.storybook.sense import judge

STORIES = [normalise(story.text).split() for story in generate(12, 1, 3)[0]]
BIRCHVILLE = "june was a hopeful girl from birchville"
COUSIN = f"{BIRCHVILLE} she had a talkative cousin named"
RING = f"{COUSIN} ella one dull saturday june found a gleaming ring"


def test_every_story_and_every_opening_of_one_makes_sense():
    for words in STORIES:
        assert judge(words, True).kind == ""
        for end in range(0, len(words), 17):
            verdict = judge(words[:end], False)
            assert (verdict.words, verdict.kind, verdict.word) == (end, "", "")


@pytest.mark.parametrize(
    ("text", "word", "kind", "expected"),
    [
        (BIRCHVILLE, "he", "person", "she"),
        (COUSIN, "june", "person", "ella"),
        (f"{RING} i will hide the gleaming", "kite", "thing", "ring"),
        (RING, "behind", "plot", "i"),
        ("june was a hopeful girl", "who", "plot", "from"),
        ("long ago a thoughtful boy called", "the", "grammar", "tom"),
        ("long ago a thoughtful boy called", "wendy", "person", "tom"),
        ("once upon a time", "once", "grammar", "there"),
    ],
)
def test_the_first_impossible_word_and_its_kind(text, word, kind, expected):
    words = text.split()
    assert judge(words, False).kind == ""
    verdict = judge([*words, word, "and", "more"], False)
    assert (verdict.words, verdict.word, verdict.kind) == (len(words), word, kind)
    possible = {option for option, _ in reach([*words, word], False)[1]}
    assert expected in possible
    assert set(verdict.expected) <= possible


def test_a_text_makes_sense_to_its_end_exactly_if_it_has_a_probability():
    rng = random.Random(2)
    for words in STORIES:
        changed = list(words)
        position = rng.randrange(len(words))
        changed[position] = rng.choice(rng.choice(STORIES))
        for text in (words, changed, words[:position]):
            assert (judge(text, True).kind == "") == any(parse_all(words_of(" ".join(text))))
