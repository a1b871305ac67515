"""What each attention head does, measured: eight roles, each against a baseline that knows positions only."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinylm.evaluate.statistics import bootstrap_intervals
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
MIN_POSITIONS = 30  # fewer say nothing about a head
SIMILAR = 0.5  # cosine of two input embeddings
REASONS = {
    "sentence start": "the tokens hold no sentence ends",
    "punctuation": "the tokens hold no punctuation",
}
RolePairs = dict[str, np.ndarray]


def role_pairs(row: Row, vectors: np.ndarray) -> RolePairs:
    """For each role the pairs (query, key) of a row, (P, 2), each key before its query, without special tokens.

    previous token      any token -> the one before it
    subject-verb        verb or auxiliary -> its subject
    article-noun        noun -> its a, an, the
    preposition-object  noun or name -> the preposition that its phrase follows
    sentence start      word -> the first token of its sentence, except in a row's first sentence
    adjective-noun      noun -> the adjectives of its phrase
    punctuation         any token -> all marks before it (words that end with one included)
    similar words       word -> all words before it with a cosine of input embeddings above `SIMILAR`, except itself
    Words of several tokens are left out of the roles about words. vectors (T, D): input embedding of each token.
    """
    tokens = np.arange(len(row.text))
    text = np.array(row.text)
    earlier = np.tri(len(tokens), k=-1, dtype=bool) & text & text[:, None]
    found = _word_pairs(row)
    found["previous token"] = np.argwhere(earlier & np.eye(len(tokens), k=-1, dtype=bool))
    found["punctuation"] = np.argwhere(earlier & np.array(row.marks))
    starts = np.array(row.starts)
    found["sentence start"] = np.stack([tokens, starts], axis=1)[starts >= 0]
    found["similar words"] = np.argwhere(earlier & _similar(row, vectors))
    return found


def _word_pairs(row: Row) -> RolePairs:
    """The pairs of the roles that depend on word classes."""
    words = row.words
    pairs: dict[str, list[tuple[int, int]]] = {
        role: []
        for role in ("subject-verb", "article-noun", "preposition-object", "adjective-noun")
    }
    for place in range(len(words)):
        of_verb = subject(words, place)
        phrase = noun_phrase(words, place)
        if of_verb is not None:
            pairs["subject-verb"].append((place, of_verb))
        if phrase is not None:
            before = preposition(words, phrase)
            pairs["article-noun"] += [(place, phrase.article)] if phrase.article is not None else []
            pairs["preposition-object"] += [(place, before)] if before is not None else []
            pairs["adjective-noun"] += [(place, adjective) for adjective in phrase.adjectives]
    found = {}
    for role, chosen in pairs.items():
        places = [(words[query].token, words[key].token) for query, key in chosen]
        found[role] = np.array([pair for pair in places if min(pair) >= 0], dtype=np.int64).reshape(
            -1, 2
        )
    return found


def _similar(row: Row, vectors: np.ndarray) -> np.ndarray:
    """(T, T): two different words of one token each with embeddings that point the same way."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    near = unit @ unit.T > SIMILAR
    texts = np.full(len(row.text), "", dtype=object)
    for word in row.words:
        if word.token >= 0:
            texts[word.token] = word.text
    known = texts != ""
    return near & known & known[:, None] & (texts != texts[:, None])


class HeadRoles:
    """Scores of all heads for all roles over many rows.

    score: share of a query's weight on its role's keys, mean over the queries that have one (positions).
    baseline: the same head's mean weight at the same distance from queries at about the same position (within a
    factor of 1.4) where the role does not hold, summed over the query's keys: a head that always looks one back
    scores as high on article-noun as its baseline. Pairs with nothing to compare are left out. "previous token"
    is itself a matter of position: its baseline is attention spread evenly over all visible tokens.
    """

    def __init__(self, context: int):
        self._context = context
        places = np.maximum(np.arange(context), 1)
        bucket = np.floor(2 * np.log2(places)).astype(np.int64)
        distance = np.subtract.outer(np.arange(context), np.arange(context))
        self._cells = bucket[:, None] * context + distance  # of a (query, key)
        self._size = (int(bucket.max()) + 1) * context
        self._weights: np.ndarray | float = 0.0  # (heads, cells): of all pairs of a cell
        self._pairs = np.zeros(self._size)
        self._shape = (0, 0)
        self._rows = 0
        self._found: dict[str, list[tuple[np.ndarray, ...]]] = {role: [] for role in ROLES}

    def add(self, maps: np.ndarray, text: Sequence[bool], pairs: Mapping[str, np.ndarray]) -> None:
        """Count one row: maps (layers, H, T, T), which tokens are text, and `role_pairs`."""
        layers, heads, length, _ = maps.shape
        self._shape = (layers, heads)
        weights = maps.reshape(layers * heads, length, length)
        is_text = np.array(text)
        queries, keys = np.nonzero(np.tri(length, k=-1, dtype=bool) & is_text & is_text[:, None])
        cells = self._cells[queries, keys]
        self._weights = self._weights + self._sums(weights[:, queries, keys], cells)
        self._pairs += np.bincount(cells, minlength=self._size)
        for role, places in pairs.items():
            query, key = places[:, 0], places[:, 1]
            here = np.full(len(query), self._rows)
            self._found[role].append((here, query, self._cells[query, key], weights[:, query, key]))
        self._rows += 1

    def table(self, resamples: int, seed: int) -> list[dict[str, Any]]:
        """A row for each measured role and head (layer and head from 1): score, baseline, positions, low and high.

        low, high: 95 % bootstrap interval over rows of score - baseline. claimed: that difference is at least
        `MARGIN` and the interval is above 0. Roles with less than `MIN_POSITIONS` positions are left out.
        """
        rows = []
        for role in ROLES:
            measured = self._measure(role)
            if measured is None:
                continue
            on_role, even, positions = measured  # (rows, heads), (rows, heads), (rows,)
            count = positions.sum()
            scores, baselines = on_role.sum(axis=0) / count, even.sum(axis=0) / count
            values = np.concatenate([on_role - even, positions[:, None]], axis=1)
            lows, highs = bootstrap_intervals(values, _ratios, resamples, seed)
            for place, (score, baseline) in enumerate(
                zip(scores.tolist(), baselines.tolist(), strict=True)
            ):
                low, high = float(lows[place]), float(highs[place])
                rows.append(
                    {
                        "layer": place // self._shape[1] + 1,
                        "head": place % self._shape[1] + 1,
                        "role": role,
                        "score": score,
                        "baseline": baseline,
                        "positions": int(count),
                        "low": low,
                        "high": high,
                        "claimed": score - baseline >= MARGIN and low > 0,
                    }
                )
        return rows

    def positions(self, role: str) -> int:
        """The number of queries that have a key of this role."""
        return sum(len(np.unique(query)) for _, query, _, _ in self._found[role])

    def _sums(self, weights: np.ndarray, cells: np.ndarray) -> np.ndarray:
        """(heads, pairs) of the given cells -> (heads, cells)"""
        return np.stack([np.bincount(cells, row, minlength=self._size) for row in weights])

    def _measure(self, role: str) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Weight on the role's keys and baseline (rows, heads), and queries (rows,); None if there are too few."""
        if not self._found[role]:
            return None
        here, query, cells = (
            np.concatenate([part[i] for part in self._found[role]]) for i in range(3)
        )
        weights = np.concatenate([part[3] for part in self._found[role]], axis=1)  # (heads, pairs)
        if role == "previous token":
            expected = np.broadcast_to(1.0 / (query + 1), weights.shape)
        else:
            others = self._pairs - np.bincount(cells, minlength=self._size)
            kept = others[cells] > 0
            means = (self._weights - self._sums(weights, cells)) / np.maximum(others, 1)
            here, query, cells, weights = here[kept], query[kept], cells[kept], weights[:, kept]
            expected = means[:, cells]
        asked = np.unique(here * self._context + query) // self._context
        positions = np.bincount(asked, minlength=self._rows)
        if positions.sum() < MIN_POSITIONS:
            return None
        per_row = [
            np.stack([np.bincount(here, row, minlength=self._rows) for row in table], axis=1)
            for table in (weights, expected)
        ]
        return per_row[0], per_row[1], positions


def _ratios(means: np.ndarray) -> np.ndarray:
    """Sums over positions, all heads at once: (R, heads + 1) -> (R, heads)"""
    return means[:, :-1] / np.maximum(means[:, -1:], 1e-12)


def summarise_roles(rows: Sequence[Mapping[str, Any]], measure: HeadRoles) -> dict[str, Any]:
    """The head that does each role most, relative to its baseline, and why a role was not measured."""
    roles: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for role in ROLES:
        heads = [row for row in rows if row["role"] == role]
        if heads:
            best = max(heads, key=lambda row: row["score"] - row["baseline"])
            roles[role] = {name: value for name, value in best.items() if name != "role"}
        else:
            found = measure.positions(role)
            reason = f"{found} positions; {MIN_POSITIONS} comparable ones are asked for"
            missing[role] = reason if found or role not in REASONS else REASONS[role]
    return {"margin": MARGIN, "roles": roles, "not_measured": missing}
