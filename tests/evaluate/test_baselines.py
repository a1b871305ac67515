import math

import numpy as np
import pytest

from tinylm.evaluate.baselines import baselines, count_ngrams, less_than_ngrams, sequences
from tinylm.evaluate.ngram import KneserNey
from tinylm.vocab.token_store import TokenStore


@pytest.fixture
def stores(corpus):
    return [TokenStore(corpus[0] / "tokens", split) for split in ("train", "evaluation")]


@pytest.mark.parametrize("layout", ["stories", "stream"])
def test_baselines_score_the_tokens_of_the_layout(stores, layout):
    train, evaluation = stores
    ngrams, unigrams = (count_ngrams(train, layout, order) for order in (3, 1))
    metrics = baselines(evaluation, layout, ngrams, unigrams, -50.0)
    floor = metrics.pop("floor")
    assert baselines(evaluation, layout, ngrams, unigrams, None) == metrics
    tokens = len(evaluation.ids) - (1 if layout == "stream" else len(evaluation))
    assert {name: row["tokens"] for name, row in metrics.items()} == dict.fromkeys(metrics, tokens)
    assert floor["tokens"] == tokens
    assert floor["perplexity"] == pytest.approx(math.exp(50.0 / tokens))
    assert metrics["uniform"]["perplexity"] == pytest.approx(train.vocab_size)
    slow = KneserNey(sequences(train, layout), 3, train.vocab_size)
    nats = -sum(slow.log_probs(np.array(s)).sum() for s in sequences(evaluation, layout))
    assert metrics["kneser_ney"]["nats_per_token"] == pytest.approx(nats / tokens)
    assert (
        metrics["kneser_ney"]["perplexity"]
        < metrics["unigram"]["perplexity"]
        < metrics["uniform"]["perplexity"]
    )


@pytest.mark.parametrize("layout", ["stories", "stream"])
def test_the_difference_from_ngrams_is_paired_by_story(stores, layout):
    train, evaluation = stores
    ngrams = count_ngrams(train, layout, 3)
    nats = baselines(evaluation, layout, ngrams, ngrams, None)["kneser_ney"]["nats_per_token"]
    tokens = np.diff(evaluation.offsets).astype(float)
    if layout == "stories":
        tokens -= 1
    else:
        tokens[0] -= 1
    stories = np.column_stack([tokens * 2.5, tokens])  # a model with 2.5 nats per token
    result = less_than_ngrams(stories, list("abcd"), evaluation, layout, ngrams)
    assert result["value"] == pytest.approx(2.5 - nats)
    assert result["low"] <= result["value"] <= result["high"]
    assert result["stories"] == len(evaluation) == 4
    assert less_than_ngrams(stories, list("abca"), evaluation, layout, ngrams)["stories"] == 3


@pytest.mark.parametrize("layout", ["stories", "stream"])
def test_a_large_train_split_is_sampled_story_by_story(stores, layout, monkeypatch):
    train, _ = stores
    monkeypatch.setattr("tinylm.evaluate.baselines.MAX_COUNTED", len(train.ids) // 4)
    every_fourth = [train.story(index) for index in range(0, len(train), 5)]
    sample = every_fourth if layout == "stories" else [np.concatenate(every_fourth)]
    expected = KneserNey(sample, 3, train.vocab_size).log_probs(train.story(1))
    counted = count_ngrams(train, layout, 3)
    assert counted.tokens <= len(train.ids) // 4
    assert counted.log_probs(train.story(1)) == pytest.approx(expected)
