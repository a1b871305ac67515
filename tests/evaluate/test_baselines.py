import math

import numpy as np
import pytest

from tinylm.evaluate.baselines import baselines, count_ngrams, sequences
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
    assert floor["bits_per_story"] == pytest.approx(50.0 / math.log(2) / 4)
    assert metrics["uniform"]["perplexity"] == pytest.approx(train.vocab_size)
    slow = KneserNey(sequences(train, layout), 3, train.vocab_size)
    nats = -sum(slow.log_probs(np.array(s)).sum() for s in sequences(evaluation, layout))
    assert metrics["kneser_ney"]["nats_per_token"] == pytest.approx(nats / tokens)
    assert (
        metrics["kneser_ney"]["perplexity"]
        < metrics["unigram"]["perplexity"]
        < metrics["uniform"]["perplexity"]
    )
