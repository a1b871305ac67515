"""What texts share with train, against a search by hand."""

import random

import pytest

from tinylm.evaluate.memorised import nearest_story


@pytest.mark.parametrize("seed", range(10))
def test_equals_the_search_by_hand(seed):
    rng = random.Random(seed)
    words = "abcdefg"[: rng.randint(1, 7)]
    stories = [rng.choices(words, k=rng.randint(0, 25)) for _ in range(rng.randint(1, 9))]
    texts = [rng.choices(words + "xy", k=rng.randint(4, 20)) for _ in range(5)]
    joined = ["".join(story) for story in stories]
    expected = []
    for text in texts:
        grams = {"".join(text[start : start + 4]) for start in range(len(text) - 3)}
        shared = max(sum(gram in story for gram in grams) for story in joined)
        expected.append(shared / len(grams))
    assert nearest_story(texts, stories) == expected
