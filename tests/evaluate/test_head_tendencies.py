"""Figures of each head against loops over queries, and the line made of them."""

import numpy as np
import pytest

from tinylm.evaluate.head_tendencies import FIGURES, WEIGHTS, HeadTendencies, interpretation

SOS, EOS = 0, 1


def random_maps(rng, layers, heads, length):
    scores = rng.normal(size=(layers, heads, length, length)) + np.where(np.tri(length), 0, -np.inf)
    weights = np.exp(scores)
    return list(weights / weights.sum(axis=-1, keepdims=True))


def even_maps(length):
    visible = np.tri(length)
    return [(visible / visible.sum(axis=1, keepdims=True))[None]]


def pointing_maps(length, target):
    """Every query puts its whole weight on target(query)."""
    weights = np.zeros((1, length, length))
    for query in range(length):
        weights[0, query, target(query)] = 1
    return [weights]


def slow_means(sentences, layer, head):
    """The definitions of the docstring, one query at a time."""
    found = {name: [] for name in FIGURES}
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
                ("punctuation", [j for j in range(i) if marks and marks[j]]),
                ("within_word", [j for j in range(i) if words and words[j] == words[i]]),
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
    sentences.append((random_maps(rng, 2, 3, 4), np.array([SOS, 7, 7, 9]), [], []))
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
        for name in FIGURES:
            assert row[name] == pytest.approx(expected[name], rel=1e-12), name
            assert row[f"{name}_even"] == pytest.approx(baseline[name], rel=1e-12), name


@pytest.mark.parametrize(
    ("target", "name", "words"),
    [
        (lambda query: max(query - 1, 0), "previous", "the previous token: 100%"),
        (lambda query: 0, "first", "the first token, <sos> or <eos>: 100%"),
        (lambda query: query, "self", "the token itself: 100%"),
        (
            lambda query: query - 3 if query >= 3 else query,
            "same_word",
            "an earlier occurrence of the same token",
        ),
    ],
)
def test_pure_heads_are_named(target, name, words):
    ids = np.array([5, 6, 7] * 5)
    tendencies = HeadTendencies([SOS, EOS])
    tendencies.add(pointing_maps(len(ids), target), ids)
    row = tendencies.table()[0]
    assert row[name] == pytest.approx(1.0)
    assert row["interpretation"].startswith(words)
    assert row["interpretation"] == interpretation(row)


def test_a_head_on_sentence_ends_is_named():
    ids = np.array([SOS, 5, EOS, 6, 7, 8, 9, 10])
    tendencies = HeadTendencies([SOS, EOS])
    tendencies.add(pointing_maps(len(ids), lambda query: 2 if query > 1 else 0), ids)
    assert tendencies.table()[0]["interpretation"].startswith(
        "the first token, <sos> or <eos>: 100%"
    )


def test_heads_on_punctuation_and_within_words_are_named():
    ids, marks = np.arange(5, 17), [place % 4 == 3 for place in range(12)]
    words = [place // 4 for place in range(12)]
    last_mark = [max((j for j in range(place) if marks[j]), default=place) for place in range(12)]
    for target, line in (
        (lambda query: last_mark[query], "earlier punctuation: 100%"),
        (lambda query: max(query - 2, query // 4 * 4), "earlier pieces of the same word: 100%"),
    ):
        tendencies = HeadTendencies([SOS, EOS])
        tendencies.add(pointing_maps(12, target), ids, marks, words)
        row = tendencies.table()[0]
        assert interpretation({**row, "self": 0.0, "previous": 0.0, "first": 0.0}).startswith(
            line
        ), row


def test_even_attention_is_its_own_baseline():
    ids = np.array([SOS, 5, 6, 5, 7, 8, 9, 6, EOS])
    tendencies = HeadTendencies([SOS, EOS])
    tendencies.add(even_maps(len(ids)), ids)
    row = tendencies.table()[0]
    for name in set(FIGURES) - {"punctuation", "within_word"}:
        assert row[name] == pytest.approx(row[f"{name}_even"])
    assert row["interpretation"] == "spread evenly"


def test_what_no_query_has_is_none():
    tendencies = HeadTendencies([SOS, EOS])
    tendencies.add(even_maps(4), np.array([5, 6, 7, 8]))
    row = tendencies.table()[0]
    assert (
        row["same_word"]
        is row["same_word_even"]
        is row["punctuation"]
        is row["within_word"]
        is None
    )
    assert row["interpretation"] == "spread evenly"


EVEN = dict.fromkeys(WEIGHTS, 0.1) | {"entropy_nats": 2.0, "distance_tokens": 10.0}


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"previous": 0.19, "first": 0.05}, "spread evenly"),
        (
            {"previous": 0.62, "self": 0.3},
            "the previous token: 62% of the weight (10% if spread evenly)",
        ),
        ({"distance_tokens": 2.0}, "nearby tokens: 2.0 back on average (10.0 if spread evenly)"),
        ({"distance_tokens": 15.0}, "distant tokens: 15.0 back on average (10.0 if spread evenly)"),
        (
            {"entropy_nats": 1.0},
            "tokens of no measured kind: about 2.7 at a time (7.4 if spread evenly)",
        ),
        (
            {"entropy_nats": 1.45},
            "tokens of no measured kind: about 4.3 at a time (7.4 if spread evenly)",
        ),
        ({"entropy_nats": 1.55}, "spread evenly"),
    ],
)
def test_interpretation_follows_the_figures(changed, line):
    figures = EVEN | {f"{name}_even": value for name, value in EVEN.items()} | changed
    assert interpretation(figures) == line


def test_no_sentence_gives_no_row():
    tendencies = HeadTendencies([SOS, EOS])
    assert tendencies.table() == []
    tendencies.add(even_maps(1), np.array([5]))
    assert tendencies.table() == []


def test_maps_that_do_not_fit_are_refused():
    tendencies = HeadTendencies([SOS, EOS])
    with pytest.raises(ValueError, match="for 3 ids"):
        tendencies.add(even_maps(4), np.array([5, 6, 7]))
    with pytest.raises(ValueError, match="do not sum to one"):
        tendencies.add([np.full((1, 3, 3), 1 / 3)], np.array([5, 6, 7]))  # looks ahead
    with pytest.raises(ValueError, match="do not sum to one"):
        tendencies.add([np.full((1, 3, 3), np.nan)], np.array([5, 6, 7]))
    tendencies.add(even_maps(3), np.array([5, 6, 7]))
    with pytest.raises(ValueError, match="layers and heads"):
        tendencies.add(even_maps(3) * 2, np.array([5, 6, 7]))
