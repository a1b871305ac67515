"""Texts from an empty prompt, against the definitions: drawn stories of the generator, cut and spoilt."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from tests.evaluate.test_truth import STORIES
from tests.storybook.worlds import BAUERNHOF, world_in
from tinylm.evaluate.free_texts import judge, read_free_text, usual_surprises
from tinylm.storybook.check import read_world
from tinylm.storybook.language import END
from tinylm.storybook.truth import Truth
from tinylm.storybook.world import storybook

WORDS = [storybook().normalise(story.text).split() for story in STORIES]
NONE = np.zeros(1)
NAMES = {child[""].lower() for child in storybook().lists["child"].options}


def surprises(words):
    """The generator's surprise at each word of a story, and at its end."""
    truth = Truth()
    sums = [0.0]
    for word in [*words, END]:
        assert truth.read(word)
        sums.append(-truth.log_prob)
    return np.diff(sums)


SURPRISES = [surprises(words) for words in WORDS]
USUAL = usual_surprises([read_free_text(" ".join(story), True, storybook()) for story in WORDS])


@st.composite
def drawn_texts(draw):
    """(number of the story, words that are kept, what follows them: nothing, its end, a mistake or <unk>)."""
    story = draw(st.integers(0, len(WORDS) - 1))
    end = draw(st.sampled_from(["", END, "giraffelike", "<unk>"]))
    kept = len(WORDS[story]) if end == END else draw(st.integers(1, 40))
    return story, kept, end


@settings(max_examples=15)
@given(st.lists(drawn_texts(), min_size=1, max_size=4))
def test_texts_are_judged_word_by_word(drawn):
    texts = []
    nats, expected, words, mistakes, grams = 0.0, 0.0, 0, 0, []
    for story, kept, end in drawn:
        written = [*WORDS[story][:kept], *([] if end in ("", END) else [end, "and", "more"])]
        texts.append(read_free_text(" ".join(written), end != "", storybook()))
        truth = Truth()
        assert all(truth.read(word) for word in WORDS[story][:kept])
        if end == END:
            assert truth.read(END)
        nats -= truth.log_prob
        words += kept + (end == END)
        mistakes += end == "giraffelike"
        for place in range(kept + (end == END)):
            reached = [values for values in SURPRISES if len(values) > place]
            expected += np.mean([values[place] for values in reached])
        grams += zip(*(written[start:] for start in range(4)), strict=False)
    free = judge(texts, USUAL, storybook())
    assert free.texts == len(drawn)
    assert free.excess_nats.value == pytest.approx((nats - expected) / words)
    if mistakes:
        assert free.words.value == pytest.approx((words + mistakes) / mistakes)
    else:
        assert free.words is None
    assert free.distinct == pytest.approx(len(set(grams)) / max(len(grams), 1), abs=1e-6)
    assert free.excess_nats.low <= free.excess_nats.value + 1e-6
    assert math.isfinite(free.excess_nats.high)


@settings(max_examples=10)
@given(st.lists(st.integers(0, len(WORDS) - 1), min_size=1, max_size=3))
def test_a_hero_is_named_once(stories):
    """The hero is the first child of a story: all others are chosen among fewer persons, or later."""
    texts = [read_free_text(" ".join(WORDS[story]), True, storybook()) for story in stories]
    heroes = {next(word for word in WORDS[story] if word in NAMES) for story in stories}
    assert judge(texts, NONE, storybook()).names == len(heroes)
    assert judge(texts, NONE, storybook(), copies=3).distinct == pytest.approx(
        judge(texts, NONE, storybook()).distinct / 3, abs=1e-6
    )


def test_a_world_without_heroes_has_no_number_of_names(tmp_path):
    """None, not zero: the model did not fail to name one. Forty persons are too few to be told apart."""
    persons = ", ".join(f"p{number}x" for number in range(41))
    few = persons.rpartition(",")[0]
    plots = {"slots.txt": "a: person\n", "plots.txt": "story:\n{a} sings\n"}
    for words, names in ((persons, 1), (few, None)):
        folder = tmp_path / str(names)
        world = world_in(folder, plots | {"lexicon.txt": f"person:\n{words}\n"})
        text = read_free_text("p1x sings", True, world)
        assert judge([text, text], NONE, world).names == names
    bauernhof = read_world(BAUERNHOF)
    assert judge([read_free_text("", True, bauernhof)], NONE, bauernhof).names is None
