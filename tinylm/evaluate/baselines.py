"""What the model is compared with: uniform, unigram, Kneser-Ney, and the generator's own floor."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from tinylm.evaluate.intervals import merge_repeats, pooled_ratio
from tinylm.evaluate.ngram import KneserNey
from tinylm.evaluate.scoring import perplexity, value_and_interval
from tinylm.run.evaluated import Loss
from tinylm.run.interval import Interval
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


def scored_tokens(evaluation: TokenStore, layout: str) -> int:
    """The tokens of the evaluation split that a baseline is scored on, each once.

    A sequence's first token is context only, as for the model. In the layouts "stories" and "stream"
    these are exactly the tokens on which the model is scored. In layout "windows" this is true only
    of its loss `scored_once`.
    """
    return sum(len(sequence) - 1 for sequence in sequences(evaluation, layout))


def loss_of(nats: float, tokens: int) -> Loss:
    """The loss of a text of this many nats in total."""
    return Loss(perplexity(nats, tokens), nats / tokens, tokens)


def uniform_loss(evaluation: TokenStore, layout: str) -> Loss:
    """The loss where every token is equally likely."""
    tokens = scored_tokens(evaluation, layout)
    return loss_of(tokens * math.log(evaluation.vocab_size), tokens)


def floor(evaluation: TokenStore, layout: str, log_prob: float) -> Loss:
    """The generator's own loss; log_prob: of the split, in nats.

    In layout "stream" a story's `<sos>` is scored too, which costs the generator nothing.
    """
    return loss_of(-log_prob, scored_tokens(evaluation, layout))


def ngram_loss(ngrams: KneserNey, evaluation: TokenStore, layout: str) -> Loss:
    """The loss of an n-gram model of `count_ngrams`."""
    sums = [float(ngrams.log_probs(ids).sum()) for ids in sequences(evaluation, layout)]
    return loss_of(-sum(sums), scored_tokens(evaluation, layout))


def less_than_ngrams(
    stories: np.ndarray,
    text_ids: Sequence[str],
    evaluation: TokenStore,
    layout: str,
    ngrams: KneserNey,
) -> Interval:
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
    return dataclasses.replace(value_and_interval(units, pooled_ratio), stories=len(units))
