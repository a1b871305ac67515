"""BLEU against Papineni et al. 2002 written out, against the library's own corpus score, and on hostile input."""

import math
import random
from collections import Counter

import numpy as np
import pytest

from tinylm.evaluate.bleu import corpus_bleu, score_texts
from tinylm.evaluate.bleu_metric import Bleu

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


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("longest", [3, 29])
def test_corpus_bleu_matches_papineni(seed, longest):
    predictions, references = random_texts(seed, 23, longest), random_texts(seed + 100, 23)
    scores = Bleu().compute(predictions=predictions, references=references)
    for order in (1, 2, 3, 4):
        expected = papineni(predictions, references, order)
        assert scores[f"bleu{order}"] == pytest.approx(expected, abs=1e-15)
    assert scores["prediction_length"] == sum(len(text.split()) for text in predictions)
    assert scores["reference_length"] == sum(len(text.split()) for text in references)


def test_sentence_bleu_uses_exp_smoothing_and_the_orders_that_fit():
    """'a b x d': 3/4, 1/3, then 1/2 and 1/4 of one match in 2 and 1 n-grams; 'a b' is perfect at its orders."""
    scores = Bleu().compute(predictions=["a b x d", "a b"], references=["a b c d", "a b"])
    first = (3 / 4 * 1 / 3 * 1 / 4 * 1 / 4) ** (1 / 4)
    assert scores["sentence_bleu"] == pytest.approx((first + 1) / 2)


@pytest.mark.parametrize(
    ("predictions", "references"),
    [
        ([], []), ([""], [""]), (["", " "], ["a b", ""]), (["a b c d e"], [""]), ([""], ["a b c d e"]),
        (["x y z w"], ["a b c d"])
    ],
)  # fmt: skip
def test_nothing_in_common_is_zero_not_an_error(predictions, references):
    scores = Bleu().compute(predictions=predictions, references=references)
    for name in ("bleu1", "bleu2", "bleu3", "bleu4", "sentence_bleu"):
        assert scores[name] == 0.0


def test_counts_of_parts_give_the_corpus_score():
    predictions, references = random_texts(3, 19), random_texts(4, 19)
    counts, _ = score_texts(predictions, references)
    assert counts.shape == (19, 10)
    whole = Bleu().compute(predictions=predictions, references=references)
    assert corpus_bleu(counts.sum(axis=0)) == whole["bleu4"]
    pairs = np.stack([counts.sum(axis=0), counts[:7].sum(axis=0)])
    expected = [papineni(predictions[:n], references[:n], 2) for n in (19, 7)]
    assert corpus_bleu(pairs, 2) == pytest.approx(expected)
    assert corpus_bleu(counts.mean(axis=0)) == pytest.approx(whole["bleu4"])


def test_scripts_without_spaces_are_scored_by_characters():
    text, other = "小猫看见一只狗", "小猫看见一棵树"
    for tokenize in ("13a", "none"):
        counts, sentences = score_texts([text, text], [text, other], tokenize)
        assert sentences[0] == 1.0
        assert counts[:, :3].tolist() == [[7, 7, 7], [7, 7, 5]]
