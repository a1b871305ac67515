"""Eight roles of attention heads, each measured against a baseline of positions alone."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tinylm.evaluate.statistics import bootstrap_intervals, holm, normal_p
from tinylm.evaluate.word_classes import Row, noun_phrase, preposition, subject

ROLES = (
    "previous token",
    "subject-verb",
    "article-noun",
    "preposition-object",
    "sentence start",
    "adjective-noun",
    "punctuation",
    "similar words",
)
MARGIN = 0.10  # a role is claimed from this share of the weight above the baseline
ALPHA = 0.05  # chance that any role of any head is claimed of heads that have none
MIN_POSITIONS = 30  # with fewer a role is not measured
SIMILAR = 0.5  # cosine of two input embeddings
RolePairs = dict[str, np.ndarray]


def role_pairs(row: Row, vectors: np.ndarray) -> RolePairs:
    """For each role the pairs (query, key) of a row, (P, 2), each key before its query.

    previous token      any token -> the one before it
    subject-verb        verb or auxiliary -> its subject
    article-noun        noun -> its a, an, the
    preposition-object  noun or name -> the preposition that its phrase follows
    sentence start      word -> the first token of its sentence, except in a row's first sentence
    adjective-noun      noun -> the adjectives of its phrase
    punctuation         any token -> all marks before it (words that end with one included)
    similar words       word -> all other words before it whose input embeddings have a cosine
                        above `SIMILAR`
    Special tokens are left out, and words of several tokens in the roles about words.
    vectors (T, D): input embedding of each token.
    """
    length = len(row.text)
    text = np.array(row.text)
    earlier = np.tri(length, k=-1, dtype=bool) & text & text[:, None]
    starts = np.array(row.starts)
    pairs = _word_pairs(row)
    pairs["previous token"] = np.argwhere(earlier & np.eye(length, k=-1, dtype=bool))
    pairs["punctuation"] = np.argwhere(earlier & np.array(row.marks))
    pairs["sentence start"] = np.stack([np.arange(length), starts], axis=1)[starts >= 0]
    pairs["similar words"] = np.argwhere(earlier & _similar(row, vectors))
    return pairs


def _word_pairs(row: Row) -> RolePairs:
    """The pairs of the roles that depend on word classes."""
    words = row.words
    pairs: dict[str, list[tuple[int, int]]] = {
        "subject-verb": [],
        "article-noun": [],
        "preposition-object": [],
        "adjective-noun": [],
    }

    def add(role: str, query: int, key: int | None) -> None:
        if key is None:
            return
        tokens = (words[query].token, words[key].token)
        if min(tokens) >= 0:
            pairs[role].append(tokens)

    for index in range(len(words)):
        add("subject-verb", index, subject(words, index))
        phrase = noun_phrase(words, index)
        if phrase is None:
            continue
        add("article-noun", index, phrase.article)
        add("preposition-object", index, preposition(words, phrase))
        for adjective in phrase.adjectives:
            add("adjective-noun", index, adjective)
    return {role: np.array(rows, dtype=np.int64).reshape(-1, 2) for role, rows in pairs.items()}


def _similar(row: Row, vectors: np.ndarray) -> np.ndarray:
    """(T, T): two different words of one token each whose embeddings point the same way."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    near = unit @ unit.T > SIMILAR
    texts = np.full(len(row.text), "", dtype=object)
    for word in row.words:
        if word.token >= 0:
            texts[word.token] = word.text
    is_word = texts != ""
    return near & is_word & is_word[:, None] & (texts != texts[:, None])


class _Weighted(NamedTuple):
    """Pairs of a role in one row or in all: row, query and cell (P,), weights (heads, P)."""

    rows: np.ndarray
    queries: np.ndarray
    cells: np.ndarray
    weights: np.ndarray


class HeadRoles:
    """Scores of all heads for all roles over many rows.

    score: share of a query's weight on its role's keys, mean over the queries that have one
    (positions).
    baseline: the same head's mean weight at the same distance, from queries at about the same
    position (within a factor of 1.4) where the role does not hold, summed over the query's keys.
    So a head that always looks one token back has a baseline as high as its score on article-noun.
    Pairs with nothing to compare are left out. "previous token" is itself a matter of position:
    its baseline is attention spread evenly over all visible tokens.
    """

    def __init__(self, context: int):
        positions = np.arange(context)
        bucket = np.floor(2 * np.log2(np.maximum(positions, 1))).astype(np.int64)
        distance = np.subtract.outer(positions, positions)
        self._context = context
        self._cells = bucket[:, None] * context + distance  # of a (query, key)
        self._size = (int(bucket.max()) + 1) * context
        self._weights: np.ndarray | float = 0.0  # (heads, cells): of all pairs of a cell
        self._pairs = np.zeros(self._size)
        self._shape = (0, 0)
        self._rows = 0
        self._of_role: dict[str, list[_Weighted]] = {role: [] for role in ROLES}

    def add(self, maps: np.ndarray, text: Sequence[bool], pairs: Mapping[str, np.ndarray]) -> None:
        """Add one row: maps (layers, H, T, T), which tokens are text, and `role_pairs`."""
        layers, heads, length, _ = maps.shape
        self._shape = (layers, heads)
        weights = maps.reshape(layers * heads, length, length)
        is_text = np.array(text)
        queries, keys = np.nonzero(np.tri(length, k=-1, dtype=bool) & is_text & is_text[:, None])
        cells = self._cells[queries, keys]
        self._weights = self._weights + _sums(cells, weights[:, queries, keys], self._size)
        self._pairs += np.bincount(cells, minlength=self._size)
        for role, of_role in pairs.items():
            queries, keys = of_role.T
            rows = np.full(len(queries), self._rows)
            cells = self._cells[queries, keys]
            part = _Weighted(rows, queries, cells, weights[:, queries, keys])
            self._of_role[role].append(part)
        self._rows += 1

    def table(self, resamples: int, seed: int) -> list[dict[str, Any]]:
        """A row for each measured role and head: score, baseline, positions, low, high, claimed.

        layer and head count from 1. low, high: 95 % bootstrap interval of score - baseline, over
        stories. claimed: that difference is at least `MARGIN`, and above 0 at `ALPHA` after Holm's
        correction for all roles and heads. Roles with fewer than `MIN_POSITIONS` positions are
        left out.
        """
        rows = []
        for role in ROLES:
            pairs, expected = self._compare(role)
            positions = self._positions(pairs)
            count = int(positions.sum())
            if count < MIN_POSITIONS:
                continue
            on_role = _sums(pairs.rows, pairs.weights, self._rows).T  # (rows, heads)
            by_position = _sums(pairs.rows, expected, self._rows).T
            scores = on_role.sum(axis=0) / count
            baselines = by_position.sum(axis=0) / count
            values = np.concatenate([on_role - by_position, positions[:, None]], axis=1)
            lows, highs = bootstrap_intervals(values, _per_position, resamples, seed)
            for index, (layer, head) in enumerate(np.ndindex(self._shape)):
                row = {
                    "layer": layer + 1,
                    "head": head + 1,
                    "role": role,
                    "score": float(scores[index]),
                    "baseline": float(baselines[index]),
                    "positions": count,
                    "low": float(lows[index]),
                    "high": float(highs[index]),
                }
                rows.append(row)
        p_values = [normal_p(gain(row), row["low"], row["high"]) for row in rows]
        for row, p in zip(rows, holm(p_values), strict=True):
            row["claimed"] = gain(row) >= MARGIN and p <= ALPHA
        return rows

    def _compare(self, role: str) -> tuple[_Weighted, np.ndarray]:
        """The pairs of a role that have something to compare, and their baseline (heads, P)."""
        none = np.zeros(0, dtype=np.int64)
        nothing = _Weighted(none, none, none, np.zeros((self._shape[0] * self._shape[1], 0)))
        parts = zip(nothing, *self._of_role[role], strict=True)
        pairs = _Weighted(*(np.concatenate(part, axis=-1) for part in parts))
        if role == "previous token":
            return pairs, np.broadcast_to(1.0 / (pairs.queries + 1), pairs.weights.shape)
        others = self._pairs - np.bincount(pairs.cells, minlength=self._size)
        weight_of_others = self._weights - _sums(pairs.cells, pairs.weights, self._size)
        means = weight_of_others / np.maximum(others, 1)
        comparable = others[pairs.cells] > 0
        pairs = _Weighted(*(part[..., comparable] for part in pairs))
        return pairs, means[:, pairs.cells]

    def _positions(self, pairs: _Weighted) -> np.ndarray:
        """The number of queries of each row that have a key.  -> (rows,)"""
        rows = np.unique(pairs.rows * self._context + pairs.queries) // self._context
        return np.bincount(rows, minlength=self._rows)


def _sums(groups: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Sums of weights (heads, P) over the pairs of each group (P,): (heads, size)."""
    return np.stack([np.bincount(groups, of_head, minlength=size) for of_head in weights])


def gain(row: Mapping[str, Any]) -> float:
    """The score of a row of `HeadRoles.table` above its baseline."""
    return row["score"] - row["baseline"]


def _per_position(means: np.ndarray) -> np.ndarray:
    """Sums over positions, all heads at once: (R, heads + 1) -> (R, heads)"""
    return means[:, :-1] / np.maximum(means[:, -1:], 1e-12)


def summarise_roles(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The best head of each role, relative to its baseline, and the roles not measured."""
    roles: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for role in ROLES:
        heads = [row for row in rows if row["role"] == role]
        if not heads:
            missing[role] = f"fewer than {MIN_POSITIONS} comparable positions"
            continue
        gains = [gain(row) for row in heads]
        best = heads[int(np.argmax(gains))]
        roles[role] = {name: value for name, value in best.items() if name != "role"}
    return {"margin": MARGIN, "roles": roles, "not_measured": missing}
