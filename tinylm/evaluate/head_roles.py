"""Four roles of attention heads, each measured against a baseline of positions alone."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import pandas as pd

from tinylm.evaluate.attention_maps import head_table
from tinylm.evaluate.settings import Rows
from tinylm.evaluate.statistics import HIGHER, Effect, bootstrap_intervals, claims, ratios_to_last

POSITIONAL = ("previous token", "first token")  # whose baseline is uniform attention
ROLES = (*POSITIONAL, "same token", "induction")
MARGIN = 0.10  # a role is claimed from this share of the weight above the baseline
LEVEL = 0.01  # chance that any role is claimed of heads that have none; the report has 0.04 for the rest
MIN_POSITIONS = 30  # with fewer a role is not measured
RolePairs = dict[str, np.ndarray]


def role_pairs(ids: np.ndarray, is_text: np.ndarray) -> RolePairs:
    """For each role the pairs (query, key) of a row of ids (T,): (P, 2), each key before its query.

    previous token  any token -> the one before it
    first token     any token but the second -> the row's first
    same token      any token -> all its earlier occurrences
    induction       any token -> the tokens after its earlier occurrences (Olsson et al. 2022)
    Special tokens, where is_text (T,) is False, are left out; a row's first token may be one.
    """
    earlier = _text_before_text(is_text)
    is_previous = np.eye(len(ids), k=-1, dtype=bool)
    is_same = earlier & (ids == ids[:, None])
    follows_same = np.zeros_like(is_same)
    follows_same[:, 1:] = is_same[:, :-1]
    queries = np.flatnonzero(is_text)
    queries = queries[queries > 1]
    return {
        "previous token": np.argwhere(earlier & is_previous),
        "first token": np.column_stack([queries, np.zeros_like(queries)]),
        "same token": np.argwhere(is_same),
        "induction": np.argwhere(earlier & follows_same),
    }


def _text_before_text(is_text: np.ndarray) -> np.ndarray:
    """(T, T) [query, key]: whether both tokens are text and the key is before the query."""
    is_before = np.tri(len(is_text), k=-1, dtype=bool)
    return is_before & is_text & is_text[:, None]


class HeadRoles:
    """Scores of all heads for all roles over many passages.

    score: share of a query's weight on its role's keys, mean over the queries that have one
    (positions).
    baseline: the same head's mean weight at the same distance where the role does not hold, summed
    over the query's keys. The mean is over queries at about the same position, within a factor of
    1.4. So a head that always looks ten tokens back has a baseline as high as its score on "same
    token". Pairs with nothing to compare are left out. The baseline of the `POSITIONAL` roles is
    attention spread evenly over all visible tokens.
    """

    def __init__(self, context: int):
        positions = np.arange(context)
        half_octaves = 2 * np.log2(np.maximum(positions, 1))
        region = np.floor(half_octaves).astype(np.int64)
        distance = np.subtract.outer(positions, positions)
        self._cells = region[:, None] * context + distance  # of a (query, key)
        self._cell_count = (int(region.max()) + 1) * context
        self._cell_weights: np.ndarray | float = 0.0  # (heads, cells): sums over all pairs
        self._cell_pairs = np.zeros(self._cell_count)
        self._shape = (0, 0)
        self._passages = 0
        self._pairs: dict[str, list[np.ndarray]] = defaultdict(list)  # by role
        self._weights: dict[str, list[np.ndarray]] = defaultdict(list)

    def add(self, maps: np.ndarray, is_text: np.ndarray, pairs: Mapping[str, np.ndarray]) -> None:
        """Add a passage: maps (layers, H, T, T), which tokens are text, and `role_pairs`."""
        layers, heads, length, _ = maps.shape
        self._shape = (layers, heads)
        weights = maps.reshape(layers * heads, length, length)
        queries, keys = np.nonzero(_text_before_text(is_text))
        cells = self._cells[queries, keys]
        sums = _sums(cells, weights[:, queries, keys], self._cell_count)
        self._cell_weights = self._cell_weights + sums
        self._cell_pairs += np.bincount(cells, minlength=self._cell_count)
        for role, of_role in pairs.items():
            queries, keys = of_role.T
            passage = np.full(len(of_role), self._passages)
            cells = self._cells[queries, keys]
            self._pairs[role].append(np.column_stack([passage, queries, cells]))
            self._weights[role].append(weights[:, queries, keys])
        self._passages += 1

    def table(self, resamples: int, seed: int) -> Rows:
        """A row for each measured role and head: score, baseline, positions, low, high, claimed.

        layer and head count from 1. low, high: 95 % bootstrap interval of score - baseline, over
        stories. claimed: that difference is at least `MARGIN`, and higher than 0 by `claims` over
        all roles and heads. Roles of fewer than `MIN_POSITIONS` are left out.
        """
        rows: Rows = []
        for role in ROLES:
            if self._pairs[role]:
                rows += self._score(role, resamples, seed)
        effects = {}
        for index, row in enumerate(rows):
            gain = row["score"] - row["baseline"]
            effects[index] = Effect(gain, row["low"], row["high"], row.pop("passages"))
        for index, claim in claims(effects, level=LEVEL).items():
            is_large = effects[index].value >= MARGIN
            rows[index]["claimed"] = claim.verdict == HIGHER and is_large
        return rows

    def _score(self, role: str, resamples: int, seed: int) -> Rows:
        """The rows of one role, without `claimed`; none if it has too few positions."""
        rows = np.concatenate(self._pairs[role])
        pairs = pd.DataFrame(rows, columns=["passage", "query", "cell"])
        weights = np.concatenate(self._weights[role], axis=1)  # (heads, P)
        expected = self._expected(role, pairs, weights)
        is_comparable = np.isfinite(expected).all(axis=0)
        pairs = pairs[is_comparable]
        passages = pairs["passage"].to_numpy()
        queries = pairs.drop_duplicates(["passage", "query"])
        positions = np.bincount(queries["passage"], minlength=self._passages)
        count = int(positions.sum())
        if count < MIN_POSITIONS:
            return []
        on_role = _sums(passages, weights[:, is_comparable], self._passages)  # (heads, passages)
        by_position = _sums(passages, expected[:, is_comparable], self._passages)
        values = np.vstack([on_role - by_position, positions]).T
        table = head_table(*self._shape)
        table["role"] = role
        table["score"] = on_role.T.sum(axis=0) / count
        table["baseline"] = by_position.T.sum(axis=0) / count
        table["positions"] = count
        table["passages"] = np.count_nonzero(positions)
        table["low"], table["high"] = bootstrap_intervals(values, ratios_to_last, resamples, seed)
        return table.to_dict("records")

    def _expected(self, role: str, pairs: pd.DataFrame, weights: np.ndarray) -> np.ndarray:
        """The baseline's weights (heads, P) of a role's pairs; NaN with nothing to compare."""
        if role in POSITIONAL:
            even = 1.0 / (pairs["query"].to_numpy() + 1)
            return np.broadcast_to(even, weights.shape)
        cells = pairs["cell"].to_numpy()
        others = self._cell_pairs - np.bincount(cells, minlength=self._cell_count)
        weights_of_others = self._cell_weights - _sums(cells, weights, self._cell_count)
        means = weights_of_others / np.maximum(others, 1)
        means[:, others == 0] = np.nan
        return means[:, cells]


def _sums(groups: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Sums of weights (heads, P) over the pairs of each group (P,): (heads, size)."""
    sums = [np.bincount(groups, of_head, minlength=size) for of_head in weights]
    return np.stack(sums)
