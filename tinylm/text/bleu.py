"""BLEU by the libraries `evaluate` and sacrebleu (Papineni et al. 2002), one reference per text.

Importing this module loads the library `evaluate`, which takes seconds.
"""

import tempfile
from typing import Any

import datasets
import evaluate
import numpy as np
from sacrebleu.metrics.bleu import BLEU

from tinylm.text.words import spaced

MAX_ORDER = 4
TOKENIZE = "none"  # words are split at white space, so `<unk>` is one word


class Bleu(evaluate.Metric):
    """BLEU of texts, all scores from 0 to 1; it needs neither network nor cache.

    `Bleu().compute(predictions=texts, references=texts)` gives
      bleu1 .. bleu4      corpus BLEU up to that order, without smoothing
      sentence_bleu       of each text, with "exp" smoothing: an order without a match counts 1/2,
                          1/4, ... of one match, and orders longer than the text are left out
      statistics          (texts, 10): words of the text and of its reference, then matching
                          n-grams of orders 1 to 4, then all n-grams of orders 1 to 4
    A score that is not defined (no text, an empty one, too few words) is 0.0. In scripts
    without spaces each character is a word.
    """

    def __init__(self) -> None:
        # the library makes a cache folder even if it stays empty
        with tempfile.TemporaryDirectory() as unused:
            super().__init__(keep_in_memory=True, cache_dir=unused, seed=0)

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description="BLEU with one reference",
            citation="Papineni et al. 2002, BLEU: a method for automatic evaluation",
            inputs_description="predictions, references: lists of strings",
            features=datasets.Features({"predictions": text, "references": text}),
        )

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        predictions = [spaced(text) for text in predictions]
        references = [spaced(text) for text in references]
        scores: dict[str, Any] = {}
        for order in range(1, MAX_ORDER + 1):
            scorer = BLEU(tokenize=TOKENIZE, smooth_method="none", max_ngram_order=order)
            whole = scorer.corpus_score(predictions, [references]).score if predictions else 0.0
            scores[f"bleu{order}"] = _at_most_1(whole / 100)
        scorer = BLEU(tokenize=TOKENIZE, smooth_method="exp", effective_order=True)
        sentences = []
        statistics = []
        for text, reference in zip(predictions, references, strict=True):
            score = scorer.sentence_score(text, [reference])
            sentences.append(_at_most_1(score.score / 100))
            statistics.append([score.sys_len, score.ref_len, *score.counts, *score.totals])
        scores["sentence_bleu"] = np.array(sentences)
        scores["statistics"] = np.array(statistics).reshape(-1, 2 + 2 * MAX_ORDER)
        return scores


def _at_most_1(score: float) -> float:
    """The score; rounding lets that of equal texts exceed 1."""
    return min(score, 1.0)


def bleu_of(statistics: np.ndarray, order: int) -> np.ndarray:
    """Corpus BLEU up to `order` of many resamples at once: (..., 10) -> (...).

    statistics: the sums or means of `Bleu`'s over the texts of each resample.
    """
    written = statistics[..., 0]
    matches = statistics[..., 2 : 2 + order]
    totals = statistics[..., 2 + MAX_ORDER : 2 + MAX_ORDER + order]
    with np.errstate(divide="ignore", invalid="ignore"):
        brevity_penalty = np.exp(np.minimum(1 - statistics[..., 1] / written, 0.0))
        score = brevity_penalty * np.exp(np.log(matches / totals).mean(axis=-1))
    return np.where((matches > 0).all(axis=-1), score, 0.0)
