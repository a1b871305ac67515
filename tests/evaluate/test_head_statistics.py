"""Means of each head against loops over queries."""

import numpy as np
import pytest

from tinylm.evaluate.head_statistics import MEASURES, HeadStatistics

SOS, EOS = 0, 1


def random_maps(rng, layers, heads, length):
    scores = rng.normal(size=(layers, heads, length, length)) + np.where(np.tri(length), 0, -np.inf)
    weights = np.exp(scores)
    return weights / weights.sum(axis=-1, keepdims=True)


def slow_means(sentences, layer, head):
    """The definitions of the docstring, one query at a time."""
    values = {name: [] for name in MEASURES}
    for maps, ids in sentences:
        for i in range(1, len(ids)):
            w = maps[layer][head][i]
            bounds = [j for j in range(1, i + 1) if ids[j] in (SOS, EOS)]
            values["first"].append(w[0] + sum(w[j] for j in bounds))
            values["self"].append(w[i])
            values["entropy_nats"].append(-sum(p * np.log(p) for p in w[: i + 1] if p > 0))
            values["distance_tokens"].append(sum(w[j] * (i - j) for j in range(i + 1)))
    return {name: np.mean(of_name) for name, of_name in values.items()}


def test_table_matches_loops_over_queries():
    rng = np.random.default_rng(3)
    statistics = HeadStatistics([SOS, EOS])
    sentences = []
    for ids in ([SOS, 7, 5, 7, 7, 9, EOS], [4, 4], [6], [5, 8, 4, EOS, SOS, 5, 5, 11, 8, 4, EOS]):
        sentences.append((random_maps(rng, 2, 3, len(ids)), np.array(ids)))
        statistics.add(*sentences[-1])
    table = statistics.table()
    assert [(row["layer"], row["head"]) for row in table] == [
        (layer, head) for layer in (1, 2) for head in (1, 2, 3)
    ]
    for row in table:
        expected = slow_means(sentences, row["layer"] - 1, row["head"] - 1)
        for name in MEASURES:
            assert row[name] == pytest.approx(expected[name], rel=1e-12), name


def test_no_sentence_gives_no_row():
    assert HeadStatistics([SOS, EOS]).table() == []
