"""BLEU from sacrebleu's counts (Papineni et al. 2002), one reference per text, from 0 to 1."""

from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from tinylm.download.same_story import spaced

MAX_ORDER = 4


def score_texts(
    predictions: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> tuple[np.ndarray, list[float]]:
    """The counts of each text for corpus BLEU, (texts, 10), and its sentence BLEU.

    Columns: prediction length, reference length, matches of orders 1 to 4, predicted n-grams of
    orders 1 to 4. Sentence BLEU has "exp" smoothing: an order without a match counts 1/2, 1/4, ...
    of one match. Orders longer than the text are left out of it.
    tokenize: "13a" for raw text, where `<unk>` becomes three tokens, or "none" for words already
    split by spaces. In scripts without spaces each character is a token. Raises ValueError if the
    numbers of predictions and references differ.
    """
    scorer = BLEU(tokenize=tokenize, smooth_method="exp", effective_order=True)
    counts: list[int] = []
    sentences: list[float] = []
    for text, reference in zip(predictions, references, strict=True):
        score = scorer.sentence_score(spaced(text), [spaced(reference)])
        counts += [score.sys_len, score.ref_len, *score.counts, *score.totals]
        sentences.append(min(score.score / 100, 1.0))  # rounding makes perfect ones exceed 1
    table = np.array(counts, dtype=np.int64)
    return table.reshape(len(sentences), 2 + 2 * MAX_ORDER), sentences


def corpus_bleu(counts: np.ndarray, order: int = MAX_ORDER) -> np.ndarray:
    """Brevity penalty * geometric mean of the precisions up to `order`: (..., 10) -> (...).

    0.0 if an order has no match. Sums over texts and means over texts give the same.
    """
    matches = counts[..., 2 : 2 + order]
    totals = counts[..., 2 + MAX_ORDER : 2 + MAX_ORDER + order]
    precisions = np.divide(matches, totals, out=np.zeros(matches.shape), where=totals > 0)
    is_match = precisions > 0
    logs = np.log(np.where(is_match, precisions, 1.0))
    predicted = counts[..., 0]
    unbounded = np.full(predicted.shape, np.inf)
    ratio = np.divide(counts[..., 1], predicted, out=unbounded, where=predicted > 0)
    brevity_penalty = np.exp(np.minimum(1 - ratio, 0.0))
    score = brevity_penalty * np.exp(logs.mean(axis=-1))
    return np.where(is_match.all(axis=-1), score, 0.0)
