"""BLEU of generated continuations, as a metric of the `evaluate` library that needs neither network nor cache."""

import tempfile
from collections.abc import Sequence
from typing import Any

import datasets
import evaluate
import numpy as np

from tinylm.evaluate.bleu_counts import (
    MAX_ORDER,
    brevity_penalty,
    corpus_bleu,
    precisions,
    score_texts,
)


class Bleu(evaluate.Metric):
    """Corpus BLEU and mean sentence BLEU with one reference per text, all scores from 0 to 1.

    `Bleu().compute(predictions=texts, references=texts, tokenize="13a")` gives
      bleu1 .. bleu4      corpus BLEU up to that order, unsmoothed (Papineni et al. 2002); bleu4 is the hub's
      sentence_bleu       mean over texts of sentence BLEU-4, "exp" smoothing (NIST: an order without a match
                          counts 1/2, 1/4, ... of one match), without orders longer than the text
      precisions          modified n-gram precision of orders 1 to 4
      brevity_penalty     min(1, exp(1 - reference_length / prediction_length))
      prediction_length, reference_length   tokens in all texts
    tokenize is "13a" for raw text (the hub's default; `<unk>` becomes three tokens), "none" for words already
    split by spaces. What is not defined (no text, an empty one, fewer tokens than the order) is 0.0.
    Raises ValueError if the numbers of predictions and references differ.
    """

    def __init__(self) -> None:
        with (
            tempfile.TemporaryDirectory() as unused
        ):  # the library makes a cache folder even if it stays empty
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
        counts, sentences = score_texts(predictions or [], references or [], tokenize)
        total = counts.sum(axis=0)
        return {
            **{
                f"bleu{order}": float(corpus_bleu(total, order))
                for order in range(1, MAX_ORDER + 1)
            },
            "sentence_bleu": float(np.mean(sentences)) if sentences else 0.0,
            "precisions": precisions(total).tolist(),
            "brevity_penalty": float(brevity_penalty(total)),
            "prediction_length": int(total[0]),
            "reference_length": int(total[1]),
        }
