"""What texts share with train, against a search by hand."""

import math
import random

import pandas as pd
import pytest

from tinylm.evaluate.memorised import measure_memorised, nearest_story
from tinylm.vocab.token_store import TokenStore


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


def test_the_nearest_story_is_one_story():
    stories = [list("abcde"), list("cdefg")]
    texts = [list("abcdefg"), list("xabcd"), list("abc")]
    nearness = nearest_story(texts, iter(stories))
    assert nearness[:2] == [0.5, 0.5]
    assert math.isnan(nearness[2])


def test_copies_of_train_stand_out_from_the_true_continuations(corpus):
    folder, tokenizer = corpus
    copy = "the cat saw the dog and the dog saw the cat"
    row = {
        "prompt": "p",
        "ids": tokenizer.encode_story(copy)[1:],
        "reference_ids": tokenizer.encode("the dog sang to a bird"),
    }
    train = TokenStore(folder / "tokens", "train")
    metrics = measure_memorised(pd.DataFrame([row] * 3), tokenizer, train)
    copied = metrics["continuations"]
    assert (copied["count"], copied["nearest"]) == (3, {"value": 1.0, "low": 1.0, "high": 1.0})
    assert metrics["references"]["nearest"]["value"] == 0
