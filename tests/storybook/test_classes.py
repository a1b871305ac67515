import re

import pytest

from tests.support.free_sentences import sentences
from tinylm.storybook.classes import all_words, class_lists, look_up, phrase_words, word_classes
from tinylm.storybook.corpus import RULES, generate, normalise


@pytest.fixture(scope="module")
def stories():
    return [story.text for story in generate(1, 40, seed=4)[1]]


def test_every_word_of_the_phrases_has_a_class():
    words = set()
    for lines in RULES.values():
        for line in lines:
            words.update(normalise(re.sub(r"\[.*?\]|\{.*?\}|<.*?>|\(.*?\)", " ", line)).split())
    assert words <= set(phrase_words())
    lists = class_lists()
    assert {*lists["verb"], *lists["noun"], *lists["adjective"]} <= words


def test_every_word_of_a_story_has_a_class_and_marks_are_those_of_the_text(stories):
    same = total = 0
    for story in stories:
        words = normalise(story).split()
        classes, marked = word_classes(words)
        assert all(classes)
        chunks = story.split()
        for i in range(1, len(chunks)):
            assert marked[i] == (not chunks[i - 1][-1].isalpha() or not chunks[i][0].isalpha())
        for length in (1, 7, 31):  # an opening has the classes of the whole
            start = word_classes(words[:length])
            assert start[0][:-1] == classes[: length - 1]
            assert start[1] == marked[:length]
        same += sum(a == b for a, b in zip(look_up(words), classes, strict=True))
        total += len(words)
    assert 0.95 < same / total < 1  # without the generator, most words get the same class


def test_the_lexicon_has_the_words_of_sentences_that_people_type():
    words = normalise(" ".join(sentences())).split()
    known = [word in all_words() for word in words]
    assert sum(known) / len(known) > 0.95


@pytest.mark.parametrize("text", ["", "the zebra", "once upon a time there were"])
def test_what_the_generator_cannot_write_has_no_drawn_classes(text):
    assert word_classes(text.split()) is None


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("the light ball", ["article", "adjective", "noun"]),
        ("i plan a swim", ["pronoun", "verb", "article", "noun"]),
        ("she had wished", ["pronoun", "auxiliary", "verb"]),
        ("a girl like tom", ["article", "noun", "preposition", "name"]),
        ("they like tom", ["pronoun", "verb", "name"]),
        ("qwertz", [""]),
        ("an owl", ["article", "noun"]),
    ],
)
def test_look_up_chooses_by_the_word_before(text, classes):
    assert look_up(text.split()) == classes
