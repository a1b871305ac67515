"""Prompts, their continuations, where these are first impossible, and BLEU as Papineni et al. 2002 define it."""

import dataclasses
import math
import random
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from tests.support.small import EVALUATE
from tinylm.base.config import InputError
from tinylm.decoding.settings import DecodeSettings
from tinylm.evaluate.bleu import Bleu, bleu_of
from tinylm.evaluate.continuations import evaluation_prompts, measure_samples
from tinylm.evaluate.diversity import distinct_n, repeated_share
from tinylm.evaluate.memorised import nearest_story
from tinylm.evaluate.plausibility import measure_plausibility, possible, read_text
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


def test_variety_and_memory_by_hand():
    texts = ["a b a b", "b a", ""]
    assert distinct_n(texts, 2) == 2 / 4
    assert repeated_share(texts, 2) == pytest.approx((1 / 3 + 0) / 2)
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


def test_texts_are_read_up_to_their_first_impossible_or_unknown_word():
    assert read_text(START, REST, True, storybook()) == (len(REST.split()), None)
    words, error = read_text(START, BROKEN, False, storybook())
    assert (words, error.word, error.words) == (5, "zzz", 10)
    words, error = read_text(START, FOUR, True, storybook())
    assert (words, error.word) == (5, "<eos>")
    assert read_text(START, f"{FOUR} <unk> zzz", True, storybook()) == (4, None)
    assert read_text("zzz once", "upon a time", False, storybook()) is None  # an impossible prompt


def test_metrics_count_words_for_each_impossible_one():
    texts = [(START, REST, True), (START, BROKEN, False), (START, "zzz", False)]
    assert possible(texts, storybook()).value == pytest.approx(1 / 3)
    samples = pd.DataFrame(texts, columns=["prompt", "continuation", "finished"])
    metrics, rows = measure_plausibility(samples, storybook())
    assert metrics.texts == 3
    assert metrics.possible == possible(texts, storybook())
    words = metrics.words
    assert words.value == pytest.approx((len(REST.split()) + 5 + 1) / 2)
    assert words.low <= words.value <= words.high
    assert sum(metrics.kinds.values()) == 2
    assert [(row["sample"], row["word"]) for row in rows] == [(1, "zzz"), (2, "zzz")]
    assert rows[0]["instead"] == "brave, kind, shy, curious, clever"


WORDS = ["the", "a", "dog", "cat", "ran", "sat", "and", "big"]


def papineni(predictions, references, order):
    """BLEU-N with one reference a text: clipped precisions, geometric mean, brevity penalty."""
    precisions = []
    for n in range(1, order + 1):
        clipped = total = 0
        for prediction, reference in zip(predictions, references, strict=True):
            grams, allowed = (
                Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
                for words in (prediction.split(), reference.split())
            )
            clipped += sum(min(times, allowed[gram]) for gram, times in grams.items())
            total += sum(grams.values())
        precisions.append(clipped / total if total else 0.0)
    c, r = (sum(len(text.split()) for text in texts) for texts in (predictions, references))
    if min(precisions) == 0:
        return 0.0
    return min(1.0, math.exp(1 - r / c)) * math.exp(sum(map(math.log, precisions)) / order)


def random_texts(seed, count, longest=29):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(0, longest))) for _ in range(count)]


@pytest.mark.parametrize("longest", [3, 29])
@pytest.mark.parametrize("seed", range(3))
def test_corpus_bleu_matches_papineni(seed, longest):
    predictions, references = random_texts(seed, 23, longest), random_texts(seed + 100, 23)
    scores = Bleu().compute(predictions=predictions, references=references)
    statistics = scores["statistics"]
    for order in (1, 2, 3, 4):
        parts = [papineni(predictions[:n], references[:n], order) for n in (23, 7)]
        assert scores[f"bleu{order}"] == pytest.approx(parts[0], abs=1e-12)
        sums = np.stack([statistics.sum(axis=0), statistics[:7].sum(axis=0)])
        assert bleu_of(sums, order) == pytest.approx(parts)
        assert bleu_of(statistics.mean(axis=0)[None], order) == pytest.approx(parts[:1])
    assert statistics[:, 0].sum() == sum(len(text.split()) for text in predictions)
    assert statistics[:, 1].sum() == sum(len(text.split()) for text in references)


def test_equal_texts_have_a_bleu_of_1():
    for words in (4, 5, 7):
        texts = [" ".join(f"w{index}" for index in range(words))] * 3
        scores = Bleu().compute(predictions=texts, references=texts)
        assert scores["bleu4"] == 1.0  # rounding gives 1.0000000000000004


def test_sentence_bleu_uses_exp_smoothing_and_the_orders_that_fit():
    """'a b x d': 3/4, 1/3, then 1/2 and 1/4 of one match in 2 and 1 n-grams; 'a b' is perfect at its orders."""
    scores = Bleu().compute(predictions=["a b x d", "a b"], references=["a b c d", "a b"])
    assert scores["sentence_bleu"] == pytest.approx([(3 / 4 * 1 / 3 * 1 / 4 * 1 / 4) ** (1 / 4), 1])


@pytest.mark.parametrize(
    ("predictions", "references"),
    [
        ([], []), ([""], [""]), (["", " "], ["a b", ""]), (["a b c d e"], [""]), ([""], ["a b c d e"]),
        (["x y z w"], ["a b c d"])
    ],
)  # fmt: skip
def test_nothing_in_common_is_zero_not_an_error(predictions, references):
    scores = Bleu().compute(predictions=predictions, references=references)
    for order in (1, 2, 3, 4):
        assert scores[f"bleu{order}"] == 0.0
        assert (bleu_of(scores["statistics"], order) == 0.0).all()
    assert (scores["sentence_bleu"] == 0.0).all()


def test_scripts_without_spaces_are_scored_by_characters():
    text, other = "小猫看见一只狗", "小猫看见一棵树"
    scores = Bleu().compute(predictions=[text, text], references=[text, other])
    assert scores["sentence_bleu"][0] == 1.0
    assert scores["statistics"][:, :3].tolist() == [[7, 7, 7], [7, 7, 5]]
