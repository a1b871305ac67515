import math

import numpy as np
import pytest

from tinylm.evaluate.baselines import baselines, count_ngrams
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
