"""What BLEU counts in each text; apart from bleu.py, since it needs only sacrebleu and imports quickly."""

from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics.bleu import BLEU

MAX_ORDER = 4


def match_counts(
    predictions: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> np.ndarray:
    """The counts of each text for corpus BLEU: (texts, 10) int64, to be summed or averaged over any texts.

    Columns: prediction length, reference length, matches of orders 1 to 4, predicted n-grams of orders 1 to 4.
    """
    return score_texts(predictions, references, tokenize)[0]


def corpus_bleu(counts: np.ndarray, order: int = MAX_ORDER) -> np.ndarray:
    """Brevity penalty * geometric mean of the precisions up to `order`; counts (..., 10) -> (...).

    0.0 if an order has no match. The scale of the counts does not matter, so means over texts work too.
    """
    found = precisions(counts)[..., :order]
    matched = (found > 0).all(axis=-1)
    mean_log = np.log(np.where(found > 0, found, 1.0)).mean(axis=-1)
    return np.where(matched, brevity_penalty(counts) * np.exp(mean_log), 0.0)


def score_texts(
    predictions: Sequence[str], references: Sequence[str], tokenize: str
) -> tuple[np.ndarray, list[float]]:
    """Match counts (texts, 10) and sentence BLEU of each text."""
    scorer = BLEU(tokenize=tokenize, smooth_method="exp", effective_order=True)
    scores = [
        scorer.sentence_score(text, [other])
        for text, other in zip(predictions, references, strict=True)
    ]
    rows = [[score.sys_len, score.ref_len, *score.counts, *score.totals] for score in scores]
    counts = np.array(rows, dtype=np.int64).reshape(-1, 2 + 2 * MAX_ORDER)
    return counts, [
        min(score.score / 100, 1.0) for score in scores
    ]  # rounding makes perfect ones exceed 1


def precisions(counts: np.ndarray) -> np.ndarray:
    matches, totals = counts[..., 2 : 2 + MAX_ORDER], counts[..., 2 + MAX_ORDER :]  # (..., 4)
    return np.divide(matches, totals, out=np.zeros(matches.shape), where=totals > 0)


def brevity_penalty(counts: np.ndarray) -> np.ndarray:
    predicted, reference = counts[..., 0], counts[..., 1]
    ratio = np.divide(
        reference, predicted, out=np.full(predicted.shape, np.inf), where=predicted > 0
    )
    return np.exp(np.minimum(1 - ratio, 0.0))
