"""What the model is compared with: uniform, unigram, Kneser-Ney, and the storybook's own floor."""

import math
from typing import Any

import numpy as np

from tinylm.scoring.ngram import KneserNey, uniform_log_probs
from tinylm.scoring.perplexity import perplexity
from tinylm.text.tokens.token_store import TokenStore


def sequences(store: TokenStore, layout: str) -> list[np.ndarray]:
    """The sequences that contexts may not cross: each story in layout "stories", otherwise the whole stream."""
    return [store.story(i) for i in range(len(store))] if layout == "stories" else [store.ids]


def _figures(nats: float, tokens: int) -> dict[str, Any]:
    return {"perplexity": perplexity(nats, tokens), "nats_per_token": nats / tokens, "tokens": tokens}


def baselines(train: TokenStore, evaluation: TokenStore, layout: str, kneser_ney: KneserNey) -> dict[str, Any]:
    """Perplexity of the evaluation split by uniform, unigram and Kneser-Ney, each of its tokens scored once.

    All are counted on the train split (kneser_ney by `count_ngrams`); a sequence's first token is context only, as
    for the model. In the layouts "stories" and "stream" these are exactly the tokens the model is scored on. In layout
    "windows" the model scores a token in each window that contains it; only its figures "once" (`split_score`) are
    over the same tokens.
    """
    size = train.vocab_size
    counted, scored = sequences(train, layout), sequences(evaluation, layout)
    tokens = sum(len(sequence) - 1 for sequence in scored)
    unigram = KneserNey(counted, 1, size)
    return {
        "uniform": _figures(-sum(float(uniform_log_probs(s, size).sum()) for s in scored), tokens),
        "unigram": _figures(-sum(float(unigram.log_probs(s).sum()) for s in scored), tokens),
        "kneser_ney": {
            "order": kneser_ney.order,
            **_figures(-sum(float(kneser_ney.log_probs(s).sum()) for s in scored), tokens),
        },
    }


def count_ngrams(train: TokenStore, layout: str, order: int) -> KneserNey:
    """The Kneser-Ney model of the train split."""
    return KneserNey(sequences(train, layout), order, train.vocab_size)


def floor(log_prob: float, evaluation: TokenStore, layout: str) -> dict[str, Any]:
    """The generator's own log-probability of the evaluation stories over the scored tokens.

    In layout "stream" a story's `<sos>` is scored too; to the generator it is certain and costs nothing.
    """
    tokens = sum(len(sequence) - 1 for sequence in sequences(evaluation, layout))
    return {**_figures(-log_prob, tokens), "bits_per_story": -log_prob / math.log(2) / max(len(evaluation), 1)}
