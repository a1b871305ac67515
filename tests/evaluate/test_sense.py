"""The metrics of graded texts, and of each method."""

import pandas as pd
import pytest

from tinylm.evaluate.sense import grade, judge_samples, rows_of, sense
from tinylm.storybook.corpus import generate, normalise
from tinylm.storybook.scorer import reach

STORY = normalise(next(generate(1, 1, 5)[0]).text)
START = " ".join(STORY.split()[:6])
REST = " ".join(STORY.split()[6:])
BROKEN = f"{' '.join(REST.split()[:4])} zzz and more"


def test_texts_are_read_up_to_their_first_impossible_or_unknown_word():
    start = " ".join(REST.split()[:4])
    unknown = f"{' '.join(REST.split()[:3])} <unk> zzz"
    texts = [(START, REST, True), (START, BROKEN, False), (START, start, True)]
    whole, broken, early, stopped = grade([*texts, (START, unknown, True)])
    assert whole.verdict.kind == ""
    assert whole.read == len(REST.split())
    assert (broken.read, broken.verdict.word) == (5, "zzz")
    assert (early.read, early.verdict.kind) == (5, "end")  # the end itself is impossible
    assert (stopped.read, stopped.verdict.kind) == (3, "")
    assert grade([("zzz once", "upon a time", False)]) == []  # an impossible prompt


def test_metrics_count_words_per_impossible_one():
    texts = [(START, REST, True), (START, BROKEN, False), (START, "zzz", False)]
    metrics = sense(grade(texts), 200, 1)
    assert metrics["texts"] == 3
    assert metrics["possible"]["value"] == pytest.approx(1 / 3)
    words = metrics["words"]
    assert words["value"] == pytest.approx((len(REST.split()) + 5 + 1) / 2)
    assert words["low"] <= words["value"] <= words["high"]
    assert sum(metrics["kinds"].values()) == 2


def test_rows_name_the_word_and_what_is_possible_instead():
    (row,) = rows_of(grade([(START, REST, True), (START, BROKEN, False)]))
    assert (row["sample"], row["word"]) == (1, "zzz")
    assert row["story"] == " ".join(STORY.split()[:10])
    possible = {word for word, _ in reach([*STORY.split()[:10], "zzz"], False)[1]}
    assert set(row["instead"].split(", ")) <= possible


def test_samples_are_judged_and_their_errors_listed():
    row = {"prompt": START, "continuation": "zzz", "finished": False}
    metrics, table = judge_samples(pd.DataFrame([row, row | {"continuation": REST}]))
    decode = metrics["methods"]["decode"]
    assert (decode["texts"], decode["possible"]["value"]) == (2, 0.5)
    assert [row["word"] for row in table] == ["zzz"]
