"""Samples are read to their first impossible word."""

import pandas as pd
import pytest

from tinylm.evaluate.sense import measure_sense, possible, read_text
from tinylm.storybook.corpus import generate, normalise

STORY = normalise(next(generate(1, 1, 5)[0]).text)
START = " ".join(STORY.split()[:6])
REST = " ".join(STORY.split()[6:])
FOUR = " ".join(REST.split()[:4])
BROKEN = f"{FOUR} zzz and more"


def test_texts_are_read_up_to_their_first_impossible_or_unknown_word():
    assert read_text(START, REST, True) == (len(REST.split()), None)
    words, error = read_text(START, BROKEN, False)
    assert (words, error.word, error.words) == (5, "zzz", 10)
    words, error = read_text(START, FOUR, True)
    assert (words, error.word) == (5, "<eos>")
    assert read_text(START, f"{FOUR} <unk> zzz", True) == (4, None)
    assert read_text("zzz once", "upon a time", False) is None  # an impossible prompt


def test_metrics_count_words_for_each_impossible_one():
    texts = [(START, REST, True), (START, BROKEN, False), (START, "zzz", False)]
    assert possible(texts)["value"] == pytest.approx(1 / 3)
    samples = pd.DataFrame(texts, columns=["prompt", "continuation", "finished"])
    metrics, rows = measure_sense(samples)
    assert metrics["texts"] == 3
    assert metrics["possible"] == possible(texts)
    words = metrics["words"]
    assert words["value"] == pytest.approx((len(REST.split()) + 5 + 1) / 2)
    assert words["low"] <= words["value"] <= words["high"]
    assert sum(metrics["kinds"].values()) == 2
    assert [(row["sample"], row["word"]) for row in rows] == [(1, "zzz"), (2, "zzz")]
    assert rows[0]["instead"] == "brave, kind, shy, curious, clever"
