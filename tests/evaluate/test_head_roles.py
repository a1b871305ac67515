"""Scores of heads whose role is known, the baseline of positions against loops, and the pairs of each role."""

import math

import numpy as np
import pytest

from tinylm.evaluate.head_roles import ROLES, HeadRoles, role_pairs
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


def measured(rows, maps):
    roles = HeadRoles(CONTEXT)
    for (_, text, pairs), weights in zip(rows, maps, strict=True):
        roles.add(weights.astype(np.float32), text, pairs)
    return roles


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


def test_the_table_matches_loops_over_pairs(monkeypatch):
    """Of random heads, and of one that looks at articles and one that looks two tokens back."""
    rng = np.random.default_rng(11)
    rows = random_rows(rng)
    maps = []
    for length, _, pairs in rows:
        weights = rng.dirichlet(np.ones(length), (2, 3, length))
        weights[0, 1] = np.eye(length, k=-2)
        for query, key in pairs["article-noun"]:
            weights[0, 0, query] = 0
            weights[0, 0, query, key] = 1
        maps.append(weights)
    table = measured(rows, maps).table(20, 1)
    assert len(table) == len(ROLES) * 6
    for row in table:
        layer, head = row["layer"] - 1, row["head"] - 1
        score, baseline, positions = slow_scores(rows, maps, row["role"], layer, head)
        assert row["score"] == pytest.approx(score, rel=1e-5)
        assert row["baseline"] == pytest.approx(baseline, rel=1e-5)
        assert row["positions"] == positions
        assert row["low"] - 1e-9 <= score - baseline <= row["high"] + 1e-9
        is_planted = (layer, head, row["role"]) == (0, 0, "article-noun")
        assert row["claimed"] == is_planted
    for _, _, pairs in rows[4:]:
        pairs["article-noun"] = pairs["article-noun"][:0]
    monkeypatch.setattr("tinylm.evaluate.head_roles.MIN_POSITIONS", 5)
    assert not any(row["claimed"] for row in measured(rows, maps).table(20, 1))  # in 4 passages


def test_roles_without_enough_positions_are_not_measured():
    rows = [(length, text, {}) for length, text, _ in random_rows(np.random.default_rng(3))]
    few = {"article-noun": np.array([[5, 4]])}
    rows[0] = (rows[0][0], np.ones(rows[0][0], dtype=bool), few)
    roles = measured(rows, [np.eye(length)[None, None] for length, _, _ in rows])
    assert roles.table(10, 1) == []


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
