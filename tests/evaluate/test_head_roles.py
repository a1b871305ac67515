"""Scores of heads whose role is known, and the baseline of positions against loops."""

import math

import numpy as np
import pytest

from tinylm.evaluate.head_roles import HeadRoles
from tinylm.run.role_pairs import POSITIONAL, ROLES

CONTEXT, ROWS = 29, 40


def random_rows(rng):
    """(length, which tokens are text, pairs of each role) of rows with random pairs."""
    rows = []
    for _ in range(ROWS):
        length = int(rng.integers(11, CONTEXT + 1))
        text = rng.random(length) > 0.1
        allowed = np.argwhere(np.tri(length, k=-1, dtype=bool) & text & text[:, None])
        pairs = {role: allowed[rng.random(len(allowed)) < 0.05] for role in ROLES}
        pairs["previous token"] = allowed[allowed[:, 0] - allowed[:, 1] == 1]
        pairs["first token"] = allowed[allowed[:, 1] == 0]
        rows.append((length, text, pairs))
    return rows


def measured(rows, maps):
    roles = HeadRoles()
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
            if role in POSITIONAL:
                keys = [query - 1 if role == "previous token" else 0]
            if keys:
                scores.append(sum(weights[layer, head, query, key] for key in keys))
                even = 1 / (query + 1) if role in POSITIONAL else None
                baselines.append(even or sum(np.mean(cells[cell(query, key)]) for key in keys))
    return np.mean(scores), np.mean(baselines), len(scores)


def test_the_table_matches_loops_over_pairs(monkeypatch):
    """Of random heads, and of one that looks at the same token and one that looks two tokens back."""
    rng = np.random.default_rng(11)
    rows = random_rows(rng)
    maps = []
    for length, _, pairs in rows:
        weights = rng.dirichlet(np.ones(length), (2, 3, length))
        weights[0, 1] = np.eye(length, k=-2)
        for query, key in pairs["same token"]:
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
        is_planted = (layer, head, row["role"]) == (0, 0, "same token")
        assert row["claimed"] == is_planted
    for _, _, pairs in rows[4:]:
        pairs["same token"] = pairs["same token"][:0]
    monkeypatch.setattr("tinylm.evaluate.head_roles.MIN_POSITIONS", 5)
    assert not any(row["claimed"] for row in measured(rows, maps).table(20, 1))  # in 4 passages


def test_roles_without_enough_positions_are_not_measured():
    rows = [(length, text, {}) for length, text, _ in random_rows(np.random.default_rng(3))]
    few = {"same token": np.array([[5, 4]])}
    rows[0] = (rows[0][0], np.ones(rows[0][0], dtype=bool), few)
    roles = measured(rows, [np.eye(length)[None, None] for length, _, _ in rows])
    assert roles.table(10, 1) == []
