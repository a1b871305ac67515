"""Sums over the queries of a sentence against loops over their definitions."""

import numpy as np
import pytest

from tinylm.evaluate.head_statistics import MEASURES, sums_over_queries

SOS, EOS = 0, 1


def slow_sums(weights, ids):
    """The definitions of the docstring, one query at a time."""
    sums = dict.fromkeys(MEASURES, 0.0)
    for i in range(1, len(ids)):
        w = weights[i]
        sums["first"] += w[0] + sum(w[j] for j in range(1, i + 1) if ids[j] in (SOS, EOS))
        sums["self"] += w[i]
        sums["entropy_nats"] -= sum(p * np.log(p) for p in w[: i + 1] if p > 0)
        sums["distance_tokens"] += sum(w[j] * (i - j) for j in range(i + 1))
    return list(sums.values())


@pytest.mark.parametrize("ids", [[SOS, 7, 5, 7, EOS], [4, 4], [6], [5, 8, EOS, SOS, 5, 5, EOS]])
def test_sums_are_those_of_loops_over_queries(ids):
    weights = np.tril(np.random.default_rng(3).random((2, 3, len(ids), len(ids))))
    maps = weights / weights.sum(axis=-1, keepdims=True)
    sums = sums_over_queries(maps, np.array(ids), {SOS, EOS})
    for layer, head in np.ndindex(2, 3):
        expected = slow_sums(maps[layer, head], ids)
        assert sums[layer, head] == pytest.approx(expected, rel=1e-12)
