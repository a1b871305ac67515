"""What the model is compared with: uniform, unigram, Kneser-Ney, and the storybook's own floor."""

import math

import numpy as np

from tinylm.evaluate.ngram import KneserNey
from tinylm.evaluate.scoring import perplexity
from tinylm.evaluate.settings import Metrics
from tinylm.vocab.token_store import TokenStore


def sequences(store: TokenStore, layout: str) -> list[np.ndarray]:
    """The sequences that contexts may not cross: each story in layout "stories", else the stream."""
    if layout == "stories":
        return [store.story(index) for index in range(len(store))]
    return [store.ids]


def count_ngrams(train: TokenStore, layout: str, order: int) -> KneserNey:
    """The Kneser-Ney model of the train split."""
    return KneserNey(sequences(train, layout), order, train.vocab_size)


def baselines(
    evaluation: TokenStore,
    layout: str,
    kneser_ney: KneserNey,
    unigram: KneserNey,
    log_prob: float | None,
) -> Metrics:
    """Perplexity of the evaluation split by each baseline, each of its tokens scored once.

    The n-gram models are those of `count_ngrams`; a sequence's first token is context only, as for
    the model. In the layouts "stories" and "stream" these are exactly the tokens on which the
    model is scored. In layout "windows" only the model's metrics "once" (`split_score`) are.
    log_prob: the generator's own of the split in nats, where there is one. It gives the "floor":
    in layout "stream" a story's `<sos>` is scored too, which costs the generator nothing.
    """
    scored = sequences(evaluation, layout)
    tokens = sum(len(sequence) - 1 for sequence in scored)
    uniform_nats = tokens * math.log(unigram.vocab_size)
    metrics = {
        "uniform": _metrics(uniform_nats, tokens),
        "unigram": _metrics(_nats(unigram, scored), tokens),
        "kneser_ney": {
            "order": kneser_ney.order,
            **_metrics(_nats(kneser_ney, scored), tokens),
        },
    }
    if log_prob is not None:
        per_story = -log_prob / math.log(2) / max(len(evaluation), 1)
        metrics["floor"] = {**_metrics(-log_prob, tokens), "bits_per_story": per_story}
    return metrics


def _nats(model: KneserNey, scored: list[np.ndarray]) -> float:
    sums = [float(model.log_probs(sequence).sum()) for sequence in scored]
    return -sum(sums)


def _metrics(nats: float, tokens: int) -> Metrics:
    return {
        "perplexity": perplexity(nats, tokens),
        "nats_per_token": nats / tokens,
        "tokens": tokens,
    }
