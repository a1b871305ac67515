"""BLEU as Papineni et al. 2002 define it, and the variety of texts."""

import math
import random
from collections import Counter

import numpy as np
import pytest

from tinylm.text.bleu import Bleu, bleu_of
from tinylm.text.diversity import distinct_n, repeated_share

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


def test_variety_by_hand():
    texts = ["a b a b", "b a", ""]
    assert distinct_n(texts, 2) == 2 / 4
    assert repeated_share(texts, 2) == pytest.approx((1 / 3 + 0) / 2)
