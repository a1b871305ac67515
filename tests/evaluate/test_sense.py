"""The metrics of graded texts, of each method, and of each checkpoint."""

import pandas as pd
import pytest

from tests.support.small import EVALUATE
from tinylm.decoding.settings import DecodeSettings
from tinylm.evaluate.continuations import Continuer
from tinylm.evaluate.sense import grade, judge_methods, rows_of, sense, sense_over_training
from tinylm.storybook.corpus import generate, normalise
from tinylm.vocab.prompts import Prompt

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
    (row,) = rows_of("greedy", grade([(START, REST, True), (START, BROKEN, False)]))
    assert row["method"] == "greedy"
    assert row["word"] == "zzz"
    assert row["story"] == " ".join(STORY.split()[:10])
    assert STORY.split()[10] in row["instead"]


def test_sense_over_training_is_graded_by_checkpoint():
    def sample(epochs, text):
        return {"epochs": epochs, "prompt": START, "text": text, "finished": False}

    samples = [sample(0.0, "zzz"), sample(0.0, "zzz"), sample(None, REST), sample(None, BROKEN)]
    first, last = sense_over_training(pd.DataFrame(samples), EVALUATE)
    assert (first["epochs"], first["texts"], first["words"]["value"]) == (0.0, 2, 1.0)
    assert (last["epochs"], last["possible"]["value"]) == (None, 0.5)


def test_every_method_is_judged_on_the_same_prompts(monkeypatch):
    used = []

    def continued(self, prompts, method):
        used.append((method.temperature, method.top_k, method.top_p))
        return [(START, BROKEN, False)]

    monkeypatch.setattr(Continuer, "texts", continued)
    row = {"prompt": START, "reference": REST, "continuation": "zzz", "finished": False}
    samples = pd.DataFrame([row])
    continuer = Continuer(None, None, EVALUATE)
    decode = DecodeSettings(temperature=0.8, top_k=50)
    metrics, table = judge_methods(continuer, [Prompt([0], [], 0)], samples, decode)
    assert list(metrics["methods"]) == [
        "references", "decode", "greedy", "temperature 0.5", "temperature 1", "temperature 1.5",
    ]  # fmt: skip
    assert used == [(0.0, 50, 1.0), (0.5, 0, 1.0), (1.0, 0, 1.0), (1.5, 0, 1.0)]
    assert metrics["methods"]["references"]["possible"]["value"] == 1.0
    assert metrics["methods"]["decode"]["words"]["value"] == 1.0
    assert {row["method"] for row in table} == set(metrics["methods"]) - {"references"}
