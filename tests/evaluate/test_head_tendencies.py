"""Figures of each head against loops over queries, and the line made of them."""

import numpy as np
import pytest

from tinylm.evaluate.head_tendencies import (
    MEASURES,
    WEIGHTS,
    HeadTendencies,
    interpretation,
)

SOS, EOS = 0, 1


def random_maps(rng, layers, heads, length):
    scores = rng.normal(size=(layers, heads, length, length)) + np.where(np.tri(length), 0, -np.inf)
    weights = np.exp(scores)
    return weights / weights.sum(axis=-1, keepdims=True)


def even_maps(length):
    visible = np.tri(length)
    return (visible / visible.sum(axis=1, keepdims=True))[None, None]


def measured(maps, ids, marks=None, words=None):
    """The table of one sentence, by default without marks and of one token a word."""
    tendencies = HeadTendencies([SOS, EOS])
    length = len(ids)
    tendencies.add(maps, np.array(ids), marks or [False] * length, words or list(range(length)))
    return tendencies.table()


def slow_means(sentences, layer, head):
    """The definitions of the docstring, one query at a time."""
    found = {name: [] for name in MEASURES}
    for maps, ids, marks, words in sentences:
        for i in range(1, len(ids)):
            w = maps[layer][head][i]
            found["previous"].append(w[i - 1])
            found["first"].append(w[0] + sum(w[j] for j in range(1, i + 1) if ids[j] in (SOS, EOS)))
            found["self"].append(w[i])
            earlier = [j for j in range(i) if ids[j] == ids[i]]
            if earlier:
                found["same_word"].append(sum(w[j] for j in earlier))
            for name, keys in (
                ("punctuation", [j for j in range(i) if marks[j]]),
                ("within_word", [j for j in range(i) if words[j] == words[i]]),
            ):
                if keys:
                    found[name].append(sum(w[j] for j in keys))
            found["entropy_nats"].append(-sum(p * np.log(p) for p in w[: i + 1] if p > 0))
            found["distance_tokens"].append(sum(w[j] * (i - j) for j in range(i + 1)))
    return {name: np.mean(values) for name, values in found.items()}


def test_table_matches_loops_over_queries():
    rng = np.random.default_rng(3)
    sentences = []
    for ids in ([SOS, 7, 5, 7, 7, 9, EOS], [4, 4], [6], [5, 8, 4, EOS, SOS, 5, 5, 11, 8, 4, EOS]):
        marks, words = [i % 3 == 1 for i in range(len(ids))], [i // 2 for i in range(len(ids))]
        sentences.append((random_maps(rng, 2, 3, len(ids)), np.array(ids), marks, words))
    tendencies = HeadTendencies([SOS, EOS])
    for sentence in sentences:
        tendencies.add(*sentence)
    even = [(even_maps(len(ids)), ids, *more) for _, ids, *more in sentences]
    table = tendencies.table()
    assert [(row["layer"], row["head"]) for row in table] == [
        (x, y) for x in (1, 2) for y in (1, 2, 3)
    ]
    for row in table:
        expected, baseline = (
            slow_means(sentences, row["layer"] - 1, row["head"] - 1),
            slow_means(even, 0, 0),
        )
        for name in MEASURES:
            assert row[name] == pytest.approx(expected[name], rel=1e-12), name
            assert row[f"{name}_even"] == pytest.approx(baseline[name], rel=1e-12), name


def test_a_measure_that_no_query_has_is_none():
    (row,) = measured(even_maps(4), [5, 6, 7, 8])
    for name in ("same_word", "punctuation", "within_word"):
        assert row[name] is row[f"{name}_even"] is None


EVEN = dict.fromkeys(WEIGHTS, 0.1) | {"entropy_nats": 2.0, "distance_tokens": 10.0}


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"previous": 0.19, "first": 0.05}, "spread evenly"),
        ({"previous": 0.62, "self": 0.3}, "the previous token"),
        ({"distance_tokens": 2.0}, "nearby tokens"),
        ({"distance_tokens": 15.0}, "distant tokens"),
        ({"entropy_nats": 1.45}, "tokens of no measured kind"),
        ({"entropy_nats": 1.55}, "spread evenly"),
    ],
)
def test_interpretation_follows_the_measures(changed, line):
    row = EVEN | {f"{name}_even": value for name, value in EVEN.items()} | changed
    assert interpretation(row).startswith(line)


def test_no_sentence_gives_no_row():
    assert HeadTendencies([SOS, EOS]).table() == []
    assert measured(even_maps(1), [5]) == []
