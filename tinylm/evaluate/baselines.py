"""What the model is compared with: uniform, unigram, Kneser-Ney, and the storybook's own floor."""

import math
from collections.abc import Sequence

import numpy as np

from tinylm.evaluate.intervals import merge_repeats, pooled_ratio
from tinylm.evaluate.ngram import KneserNey
from tinylm.evaluate.scoring import perplexity, value_and_interval
from tinylm.evaluate.settings import Metrics
from tinylm.vocab.token_store import TokenStore

MAX_COUNTED = 4_000_000  # tokens; counting takes about 200 bytes per token at its peak


def sequences(store: TokenStore, layout: str) -> list[np.ndarray]:
    """The sequences that contexts may not cross: each story in layout "stories", else the stream."""
    if layout == "stories":
        return [store.story(index) for index in range(len(store))]
    return [store.ids]


def count_ngrams(train: TokenStore, layout: str, order: int) -> KneserNey:
    """The Kneser-Ney model of at most `MAX_COUNTED` tokens of the train split.

    A larger split is sampled: every k-th story, so that the sample is spread over the split.
    """
    every = math.ceil(len(train.ids) / MAX_COUNTED)
    sample: list[np.ndarray] = []
    left = MAX_COUNTED
    for index in range(0, len(train), max(every, 1)):
        story = train.story(index)[:left]
        left -= len(story)
        sample.append(story)
    if layout != "stories":
        sample = [np.concatenate(sample)]
    return KneserNey(sample, order, train.vocab_size)


def baselines(
    evaluation: TokenStore,
    layout: str,
    kneser_ney: KneserNey,
    unigram: KneserNey,
    log_prob: float | None,
) -> Metrics:
    """Perplexity of the evaluation split under each baseline, each of its tokens scored once.

    The n-gram models are those of `count_ngrams`; a sequence's first token is context only, as for
    the model. In the layouts "stories" and "stream" these are exactly the tokens on which the
    model is scored. In layout "windows" this is true only of its metrics "once" (`split_score`).
    log_prob: the generator's own for the split, in nats; None without one. It gives the "floor":
    in layout "stream" a story's `<sos>` is scored too, which costs the generator nothing.
    """
    scored = sequences(evaluation, layout)
    tokens = sum(len(sequence) - 1 for sequence in scored)
    metrics = {"uniform": _metrics(tokens * math.log(unigram.vocab_size), tokens)}
    for name, model in (("unigram", unigram), ("kneser_ney", kneser_ney)):
        sums = [float(model.log_probs(sequence).sum()) for sequence in scored]
        metrics[name] = _metrics(-sum(sums), tokens)
    metrics["kneser_ney"]["order"] = kneser_ney.order
    metrics["kneser_ney"]["counted_tokens"] = kneser_ney.tokens
    if log_prob is not None:
        metrics["floor"] = _metrics(-log_prob, tokens)
    return metrics


def less_than_ngrams(
    stories: np.ndarray,
    text_ids: Sequence[str],
    evaluation: TokenStore,
    layout: str,
    ngrams: KneserNey,
) -> Metrics:
    """Nats per token of the model minus those of the n-grams, with the interval over different texts.

    stories (S, 2): the model's nats and scored tokens of each story, each token scored once.
    text_ids: a name for each story's text, equal for equal texts.
    """
    nats = [np.append(0.0, -ngrams.log_probs(ids)) for ids in sequences(evaluation, layout)]
    lengths = np.diff(evaluation.offsets)
    story = np.repeat(np.arange(len(lengths)), lengths)  # of each token
    by_ngrams = np.bincount(story, np.concatenate(nats), len(lengths))
    gained = np.column_stack([stories[:, 0] - by_ngrams, stories[:, 1]])
    units = merge_repeats(gained, text_ids)
    return value_and_interval(units, pooled_ratio) | {"stories": len(units)}


def _metrics(nats: float, tokens: int) -> Metrics:
    return {
        "perplexity": perplexity(nats, tokens),
        "nats_per_token": nats / tokens,
        "tokens": tokens,
    }
