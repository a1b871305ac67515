"""Divergence between heads: its ends, its value against SciPy's definition written out, and its mean over queries."""

import numpy as np
import pytest

from tinylm.evaluate.head_distance import HeadDistances


def random_maps(rng, layers=2, heads=3, length=7):
    scores = rng.normal(size=(layers, heads, length, length)) * 2
    weights = np.exp(scores) * np.tri(length)
    return weights / weights.sum(axis=-1, keepdims=True)


def slow(p, q):
    """Jensen-Shannon divergence of two distributions in bits, term by term."""
    total = 0.0
    for a, b in zip(p, q, strict=True):
        m = (a + b) / 2
        total += sum(x / 2 * np.log2(x / m) for x in (a, b) if x > 0)
    return total


def test_every_pair_has_the_mean_over_all_queries_of_all_sentences():
    rng = np.random.default_rng(1)
    sentences = [random_maps(rng, length=length) for length in (7, 3, 5)]
    distances = HeadDistances()
    for maps in sentences:
        distances.add(maps)
    rows = distances.table()
    assert len(rows) == 15
    for row in rows:
        one, other = (
            (row["layer"] - 1, row["head"] - 1),
            (row["other_layer"] - 1, row["other_head"] - 1),
        )
        assert one < other
        terms = [
            slow(maps[one][i], maps[other][i])
            for maps in sentences
            for i in range(1, maps.shape[-1])
        ]
        assert row["bits"] == pytest.approx(np.mean(terms), abs=1e-12)


def test_equal_heads_are_nothing_apart_and_heads_without_a_common_token_one_bit():
    maps = np.zeros((1, 3, 4, 4))
    maps[0, :2, range(4), 0] = 1  # the first token
    maps[0, 2, range(4), range(4)] = 1  # the token itself
    distances = HeadDistances()
    distances.add(maps)
    found = {(row["head"], row["other_head"]): row["bits"] for row in distances.table()}
    assert found == {(1, 2): 0.0, (1, 3): 1.0, (2, 3): 1.0}


def test_a_sentence_of_one_token_says_nothing():
    distances = HeadDistances()
    distances.add(np.ones((1, 2, 1, 1)))
    assert distances.table() == []
