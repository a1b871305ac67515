"""Scores of heads whose role is known, the baseline of positions against loops, and the pairs of each role."""

import math

import numpy as np
import pytest

from tinylm.evaluate.head_roles import MARGIN, ROLES, HeadRoles, role_pairs, summarise_roles
from tinylm.evaluate.word_classes import Row, Word
from tinylm.storybook.classes import look_up

CONTEXT, ROWS = 29, 40


def row_of(words, starts=None, marks=(), specials=()):
    """A row of one token a word; "" stands for a mark or special token."""
    names = look_up([word.strip("|") for word in words])
    read = [
        Word(word.strip("|"), index, name, index == 0 or word.startswith("|"))
        for index, (word, name) in enumerate(zip(words, names, strict=True))
        if word
    ]
    text = [index not in specials for index in range(len(words))]
    return Row(read, text, [i in marks for i in range(len(words))], starts or [-1] * len(words))


def random_rows(rng):
    """(length, which tokens are text, pairs of each role) of rows with random pairs."""
    rows = []
    for _ in range(ROWS):
        length = int(rng.integers(11, CONTEXT + 1))
        text = rng.random(length) > 0.1
        allowed = np.argwhere(np.tri(length, k=-1, dtype=bool) & text & text[:, None])
        pairs = {role: allowed[rng.random(len(allowed)) < 0.05] for role in ROLES}
        pairs["previous token"] = allowed[allowed[:, 0] - allowed[:, 1] == 1]
        rows.append((length, text, pairs))
    return rows


def measured(rows, make_maps):
    roles = HeadRoles(CONTEXT)
    for length, text, pairs in rows:
        roles.add(np.asarray(make_maps(length, pairs), dtype=np.float32), text, pairs)
    return roles


@pytest.mark.parametrize("distance", [1, 2, 5])
def test_a_head_that_knows_distances_only_scores_its_baseline(distance):
    def looks_back(length, pairs):
        return np.eye(length, k=-distance)[None, None]

    rng = np.random.default_rng(5)
    rows = []
    for length, text, pairs in random_rows(rng):
        queries = np.arange(distance, length)
        near = np.stack([queries, queries - distance], axis=1)
        near = near[text[near].all(axis=1)]
        rows.append((length, text, pairs | {"article-noun": near[rng.random(len(near)) < 0.6]}))
    table = measured(rows, looks_back).table(50, 1)
    (result,) = [row for row in table if row["role"] == "article-noun"]
    assert result["score"] == 1
    assert result["baseline"] == pytest.approx(1)
    assert result["low"] == pytest.approx(0, abs=1e-9)
    assert not result["claimed"]


def slow_scores(rows, maps, role, layer, head):
    """The definition in loops: score, baseline, positions."""

    def cell(query, key):
        return math.floor(2 * math.log2(query)), query - key

    cells: dict = {}
    for (length, text, pairs), weights in zip(rows, maps, strict=True):
        of_role = {tuple(pair) for pair in pairs[role].tolist()}
        for query in range(length):
            for key in range(query):
                if text[query] and text[key] and (query, key) not in of_role:
                    cells.setdefault(cell(query, key), []).append(weights[layer, head, query, key])
    scores, baselines = [], []
    for (_, _, pairs), weights in zip(rows, maps, strict=True):
        for query in sorted(set(pairs[role][:, 0].tolist())):
            keys = [
                key for q, key in pairs[role].tolist() if q == query and cell(query, key) in cells
            ]
            if role == "previous token":
                keys = [query - 1]
            if keys:
                scores.append(sum(weights[layer, head, query, key] for key in keys))
                even = 1 / (query + 1) if role == "previous token" else None
                baselines.append(even or sum(np.mean(cells[cell(query, key)]) for key in keys))
    return np.mean(scores), np.mean(baselines), len(scores)


def test_the_table_matches_loops_over_pairs():
    rng = np.random.default_rng(11)
    rows = random_rows(rng)
    maps = [
        rng.dirichlet(np.ones(length), (2, 3, length)).astype(np.float32) for length, _, _ in rows
    ]
    following = iter(maps)
    table = measured(rows, lambda length, pairs: next(following)).table(20, 1)
    assert len(table) == len(ROLES) * 6
    for row in table:
        score, baseline, positions = slow_scores(
            rows, maps, row["role"], row["layer"] - 1, row["head"] - 1
        )
        assert row["score"] == pytest.approx(score, rel=1e-5)
        assert row["baseline"] == pytest.approx(baseline, rel=1e-5)
        assert row["positions"] == positions
        assert row["low"] <= score - baseline <= row["high"]
        if row["claimed"]:
            assert score - baseline >= MARGIN
            assert row["low"] > 0


def test_roles_without_enough_positions_are_not_measured():
    rows = [(length, text, {}) for length, text, _ in random_rows(np.random.default_rng(3))]
    few = {"article-noun": np.array([[5, 4]])}
    rows[0] = (rows[0][0], np.ones(rows[0][0], dtype=bool), few)
    roles = measured(rows, lambda length, pairs: np.eye(length)[None, None])
    table = roles.table(10, 1)
    assert table == []
    result = summarise_roles(table)
    assert result["roles"] == {}
    assert set(result["not_measured"]) == set(ROLES)


def pairs_of(row, vectors=None):
    vectors = np.eye(len(row.text), 64) if vectors is None else vectors
    return {
        role: [tuple(p) for p in pairs.tolist()] for role, pairs in role_pairs(row, vectors).items()
    }


def test_pairs_of_a_sentence():
    words = ["", "the", "old", "dog", "ran", "under", "a", "red", "bridge", "", "|it", "barked", ""]
    row = row_of(words, starts=[-1] * 11 + [10, -1], marks=[9], specials=[0, 12])
    result = pairs_of(row)
    assert result == {
        "subject-verb": [(4, 3), (11, 10)], "article-noun": [(3, 1), (8, 6)], "preposition-object": [(8, 5)],
        "adjective-noun": [(3, 2), (8, 7)], "previous token": [(i, i - 1) for i in range(2, 12)],
        "punctuation": [(10, 9), (11, 9)], "sentence start": [(11, 10)], "similar words": []
    }  # fmt: skip
    assert set(result) == set(ROLES)


def test_similar_words_point_the_same_way_and_are_not_the_same():
    row = row_of(["tom", "ran", "ben", "tom", "hid"])
    vectors = np.array([[1, 0.1], [0, 1], [2, 0.0], [1, 0.1], [-1, 0]])
    assert pairs_of(row, vectors)["similar words"] == [(2, 0), (3, 2)]
    assert pairs_of(row_of(["tom", "ran", "ben"], specials=[2]), vectors[:3])["similar words"] == []
    assert pairs_of(row, np.zeros((5, 2)))["similar words"] == []
    part = row._replace(words=[*row.words[:3], row.words[3]._replace(token=-1), row.words[4]])
    assert pairs_of(part, vectors)["similar words"] == [(2, 0)]
