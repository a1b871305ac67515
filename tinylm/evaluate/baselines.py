"""What the model is compared with: uniform, unigram, Kneser-Ney, and the storybook's own floor."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinylm.evaluate.ngram import KneserNey, uniform_log_probs
from tinylm.evaluate.perplexity import perplexity
from tinylm.vocab.token_store import TokenStore


def sequences(store: TokenStore, layout: str) -> list[np.ndarray]:
    """The sequences that contexts may not cross: each story in layout "stories", otherwise the whole stream."""
    return [store.story(i) for i in range(len(store))] if layout == "stories" else [store.ids]


def _figures(nats: float, tokens: int) -> dict[str, Any]:
    return {
        "perplexity": perplexity(nats, tokens),
        "nats_per_token": nats / tokens,
        "tokens": tokens,
    }


def baselines(
    evaluation: TokenStore,
    layout: str,
    kneser_ney: KneserNey,
    unigram: KneserNey,
    log_prob: float | None,
) -> dict[str, Any]:
    """Perplexity of the evaluation split by uniform, unigram and Kneser-Ney, each of its tokens scored once.

    The n-gram models are those of `count_ngrams`; a sequence's first token is context only, as for the model. In the
    layouts "stories" and "stream" these are exactly the tokens the model is scored on. In layout "windows" the model
    scores a token in each window that contains it; only its figures "once" (`split_score`) are over the same tokens.
    log_prob: the generator's own of the split in nats, where it is known, for the "floor".
    """
    scored = sequences(evaluation, layout)
    tokens = sum(len(sequence) - 1 for sequence in scored)

    def figures(log_probs: Callable[[np.ndarray], np.ndarray]) -> dict[str, Any]:
        return _figures(-sum(float(log_probs(sequence).sum()) for sequence in scored), tokens)

    return {
        "uniform": figures(lambda sequence: uniform_log_probs(sequence, unigram.vocab_size)),
        "unigram": figures(unigram.log_probs),
        "kneser_ney": {"order": kneser_ney.order, **figures(kneser_ney.log_probs)},
        **({} if log_prob is None else {"floor": floor(log_prob, evaluation, layout)}),
    }


def count_ngrams(train: TokenStore, layout: str, order: int) -> KneserNey:
    """The Kneser-Ney model of the train split."""
    return KneserNey(sequences(train, layout), order, train.vocab_size)


def floor(log_prob: float, evaluation: TokenStore, layout: str) -> dict[str, Any]:
    """The generator's own log-probability of the evaluation stories over the scored tokens.

    In layout "stream" a story's `<sos>` is scored too; to the generator it is certain and costs nothing.
    """
    tokens = sum(len(sequence) - 1 for sequence in sequences(evaluation, layout))
    return {
        **_figures(-log_prob, tokens),
        "bits_per_story": -log_prob / math.log(2) / max(len(evaluation), 1),
    }
