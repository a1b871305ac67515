"""BLEU of generated continuations, as a metric of the `evaluate` library that needs neither network nor cache."""

import tempfile
from collections.abc import Sequence
from typing import Any

import datasets
import evaluate
import numpy as np
from sacrebleu.metrics.bleu import BLEU

MAX_ORDER = 4


class Bleu(evaluate.Metric):
    """Corpus BLEU and mean sentence BLEU with one reference a text, all scores from 0 to 1.

    `Bleu().compute(predictions=texts, references=texts, tokenize="13a")` gives
      bleu1 .. bleu4      corpus BLEU up to that order, unsmoothed (Papineni et al. 2002); bleu4 is the hub's
      sentence_bleu       mean over texts of sentence BLEU-4, "exp" smoothing (NIST: an order without a match
                          counts 1/2, 1/4, ... of one match), orders longer than the text left out
      precisions          modified n-gram precision of orders 1 to 4
      brevity_penalty     min(1, exp(1 - reference_length / prediction_length))
      prediction_length, reference_length   tokens in all texts
    tokenize is "13a" for raw text (the hub's default; `<unk>` becomes three tokens), "none" for words already
    split by spaces. What is not defined (no text, an empty one, fewer tokens than the order) is 0.0.
    Raises ValueError where the numbers of predictions and references differ.
    """

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory() as unused:  # the library makes a cache folder even if nothing goes there
            super().__init__(keep_in_memory=True, cache_dir=unused, seed=0)

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="BLEU with one reference",
            citation="Papineni et al. 2002, BLEU: a method for automatic evaluation of machine translation",
            inputs_description="predictions, references: lists of strings",
            features=datasets.Features(
                {"predictions": datasets.Value("string"), "references": datasets.Value("string")}
            ),
        )

    def _compute(
        self,
        *,
        predictions: Sequence[str] | None = None,
        references: Sequence[str] | None = None,
        tokenize: str = "13a",
        **_: Any,
    ) -> dict[str, Any]:
        counts, sentences = _score_texts(predictions or [], references or [], tokenize)
        total = counts.sum(axis=0)
        return {
            **{f"bleu{order}": float(corpus_bleu(total, order)) for order in range(1, MAX_ORDER + 1)},
            "sentence_bleu": float(np.mean(sentences)) if sentences else 0.0,
            "precisions": _precisions(total).tolist(),
            "brevity_penalty": float(_brevity_penalty(total)),
            "prediction_length": int(total[0]),
            "reference_length": int(total[1]),
        }


def match_counts(predictions: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> np.ndarray:
    """What corpus BLEU needs of each text: (texts, 10) int64, to be summed or averaged over any texts.

    Columns: prediction length, reference length, matches of orders 1 to 4, predicted n-grams of orders 1 to 4.
    """
    return _score_texts(predictions, references, tokenize)[0]


def corpus_bleu(counts: np.ndarray, order: int = MAX_ORDER) -> np.ndarray:
    """Brevity penalty * geometric mean of the precisions up to `order`; counts (..., 10) -> (...).

    0.0 where an order has no match. Scale of the counts does not matter, so means over texts serve too.
    """
    precisions = _precisions(counts)[..., :order]
    matched = (precisions > 0).all(axis=-1)
    mean_log = np.log(np.where(precisions > 0, precisions, 1.0)).mean(axis=-1)
    return np.where(matched, _brevity_penalty(counts) * np.exp(mean_log), 0.0)


def _score_texts(
    predictions: Sequence[str], references: Sequence[str], tokenize: str
) -> tuple[np.ndarray, list[float]]:
    """Match counts (texts, 10) and sentence BLEU of each text."""
    scorer = BLEU(tokenize=tokenize, smooth_method="exp", effective_order=True)
    scores = [scorer.sentence_score(text, [other]) for text, other in zip(predictions, references, strict=True)]
    rows = [[score.sys_len, score.ref_len, *score.counts, *score.totals] for score in scores]
    counts = np.array(rows, dtype=np.int64).reshape(-1, 2 + 2 * MAX_ORDER)
    return counts, [min(score.score / 100, 1.0) for score in scores]  # rounding lifts perfect ones above 1


def _precisions(counts: np.ndarray) -> np.ndarray:
    matches, totals = counts[..., 2 : 2 + MAX_ORDER], counts[..., 2 + MAX_ORDER :]  # (..., 4)
    return np.divide(matches, totals, out=np.zeros(matches.shape), where=totals > 0)


def _brevity_penalty(counts: np.ndarray) -> np.ndarray:
    predicted, reference = counts[..., 0], counts[..., 1]
    ratio = np.divide(reference, predicted, out=np.full(predicted.shape, np.inf), where=predicted > 0)
    return np.exp(np.minimum(1 - ratio, 0.0))
