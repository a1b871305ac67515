"""Prompts, the metrics of their continuations, and where these are first impossible."""

import dataclasses

import pandas as pd
import pytest

from tests.support.small import EVALUATE
from tinylm.base.config import InputError
from tinylm.decoding.settings import DecodeSettings
from tinylm.evaluate.continuations import evaluation_prompts, measure_samples
from tinylm.evaluate.memorised import nearest_story
from tinylm.evaluate.plausibility import measure_plausibility
from tinylm.run.interval import wilson
from tinylm.storybook.corpus import generate
from tinylm.storybook.world import storybook
from tinylm.vocab.token_store import TokenStore

DECODE = DecodeSettings(seed=5)
SETTINGS = EVALUATE


def prompts_of(corpus, **changes):
    folder, tokenizer = corpus
    settings = dataclasses.replace(SETTINGS, **changes)
    return evaluation_prompts(TokenStore(folder / "tokens", "evaluation"), tokenizer, settings)


def test_prompts_are_those_of_the_settings(corpus):
    folder, _ = corpus
    stream = TokenStore(folder / "tokens", "evaluation").ids.tolist()
    _, starts, _ = prompts_of(corpus)
    _, whole, _ = prompts_of(corpus, reference="whole")
    assert whole.reference == starts.reference
    cuts = prompts_of(corpus, prompts="stream", stories=10)
    for cut in cuts:
        piece = cut.ids + cut.reference
        assert any(stream[at : at + 11] == piece for at in range(len(stream)))
    assert len(cuts) == 10


def test_memory_by_hand():
    stories = [["a", "b", "c", "d", "e"], ["b", "c", "d", "e", "f", "g"]]
    assert nearest_story([["x", "b", "c", "d", "e", "f"]], stories) == [2 / 3]


def test_bleu_is_that_of_the_continuations_against_their_references():
    """Of texts of unequal length: BLEU is a precision."""
    numbers = ("story", "finished", "perplexity", "reference_perplexity", "nats", "reference_nats")
    row = dict.fromkeys(numbers, 1) | {"prompt": "", "tokens": 5, "reference_tokens": 3}
    samples = pd.DataFrame([row | {"continuation": "a b c d e", "reference": "a b c"}])
    metrics, table = measure_samples(samples, SETTINGS, DECODE)
    assert metrics.bleu1.value == pytest.approx(3 / 5)
    assert metrics.bleu2.value == pytest.approx((3 / 5 * 2 / 4) ** 0.5)
    assert (metrics.hypothesis_tokens, metrics.reference_tokens) == (5, 3)
    assert table["bleu"][0] == pytest.approx((3 / 5 * 2 / 4 * 1 / 3 * 1 / 4) ** 0.25)


@pytest.mark.parametrize("kind", ["starts", "stream"])
def test_prompts_longer_than_the_split_are_refused(corpus, kind):
    with pytest.raises(InputError, match=r"evaluate\.prompt_tokens: .* got 500"):
        prompts_of(corpus, prompts=kind, prompt_tokens=500)


STORY = storybook().normalise(next(generate(1, 1, 5)[0]).text)
START = " ".join(STORY.split()[:6])
REST = " ".join(STORY.split()[6:])
FOUR = " ".join(REST.split()[:4])
BROKEN = f"{FOUR} zzz and more"


def test_metrics_count_words_for_each_impossible_one():
    texts = [(START, REST, True), (START, BROKEN, False), (START, "zzz", False)]
    samples = pd.DataFrame(texts, columns=["prompt", "continuation", "finished"])
    metrics, rows = measure_plausibility(samples, storybook(), pieces=False)
    assert metrics.texts == 3
    assert metrics.possible == wilson(1, 3)
    words = metrics.words
    assert words.value == pytest.approx((len(REST.split()) + 5 + 1) / 2)
    assert words.low <= words.value <= words.high
    assert sum(metrics.kinds.values()) == 2
    assert [(row["sample"], row["word"]) for row in rows] == [(1, "zzz"), (2, "zzz")]
    assert rows[0]["instead"] == "brave, kind, shy, curious, clever"
