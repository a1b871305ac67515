"""BLEU as a metric of the `evaluate` library, which needs neither network nor cache."""

import tempfile

import datasets
import evaluate
import numpy as np

from tinylm.evaluate.bleu import MAX_ORDER, corpus_bleu, score_texts


class Bleu(evaluate.Metric):
    """Corpus BLEU and mean sentence BLEU with one reference per text, all scores from 0 to 1.

    `Bleu().compute(predictions=texts, references=texts, tokenize="13a")` gives
      bleu1 .. bleu4      corpus BLEU up to that order, unsmoothed; bleu4 is the hub's
      sentence_bleu       mean over texts of sentence BLEU (see `score_texts`)
      prediction_length, reference_length   tokens in all texts
    What is not defined (no text, an empty one, fewer tokens than the order) is 0.0.
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

    def _compute(
        self, predictions: list[str], references: list[str], tokenize: str = "13a"
    ) -> dict[str, float]:
        counts, sentences = score_texts(predictions, references, tokenize)
        total = counts.sum(axis=0)
        scores = {
            "sentence_bleu": float(np.mean(sentences)) if sentences else 0.0,
            "prediction_length": int(total[0]),
            "reference_length": int(total[1]),
        }
        for order in range(1, MAX_ORDER + 1):
            scores[f"bleu{order}"] = float(corpus_bleu(total, order))
        return scores
