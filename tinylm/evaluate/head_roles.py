"""Five roles of attention heads, each measured against a baseline of positions alone."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import pandas as pd

from tinylm.evaluate.attention_maps import head_table
from tinylm.evaluate.intervals import bootstrap_intervals, ratios_to_last
from tinylm.evaluate.settings import Rows
from tinylm.evaluate.significance import claims, p_of_interval
from tinylm.run.role_pairs import POSITIONAL, ROLES, text_before_text

MARGIN = 0.10  # a role is claimed if the score is at least this far above the baseline
ERROR_RATE = 0.01  # family-wise false-positive rate of the roles
MIN_POSITIONS = 30  # with fewer, a role is not measured
_DISTANCES = 1 << 32  # more than any context has


class _Cells:
    """Mean attention weights of all heads over cells: (query, key) pairs at one distance.

    The queries of a cell have positions within a factor of 1.4. `numbers` numbers the cells.
    """

    def __init__(self) -> None:
        # for each cell the sum of each head's weights, and "pairs", their number
        self._sums = pd.DataFrame()

    @staticmethod
    def numbers(queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """The cell of each pair.  (P), (P) -> (P)"""
        half_octave = np.floor(2 * np.log2(np.maximum(queries, 1))).astype(np.int64)
        return half_octave * _DISTANCES + (queries - keys)

    @staticmethod
    def _sum(pairs: pd.DataFrame) -> pd.DataFrame:
        weights = pairs.drop(columns=["passage", "query", "cell"])
        return weights.assign(pairs=1).groupby(pairs["cell"]).sum()

    def add(self, pairs: pd.DataFrame) -> None:
        """Add a table of pairs to the sums."""
        self._sums = self._sums.add(self._sum(pairs), fill_value=0.0)

    def means_without(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """For each of these pairs and each head: the mean of its cell without these pairs.

        NaN where the cell has no other pairs.
        """
        own = self._sum(pairs)
        others = self._sums.loc[own.index] - own
        others = others[others["pairs"] > 0]
        means = others.drop(columns="pairs").div(others["pairs"], axis=0)
        return means.reindex(pairs["cell"]).reset_index(drop=True)


class HeadRoles:
    """Scores of all heads for all roles over many passages.

    score: share of a query's weight on its role's keys, mean over the queries that have one
    (positions).
    baseline: the same head's mean weight at the same distance where the role does not hold, summed
    over the query's keys. The mean is over queries at about the same position (`_Cells`). So a head
    that always looks ten tokens back has a baseline as high as its score on "same token". Pairs with
    nothing to compare are left out. The baseline of the `POSITIONAL` roles is attention spread evenly
    over all visible tokens.

    Tables of pairs have a row for each (query, key): passage, query, its `cell` (one distance at
    about one position), and a column 0, 1, ... with the weight of each head of all layers.
    """

    def __init__(self) -> None:
        self._layers_heads = (0, 0)
        self._passages = 0
        self._cells = _Cells()  # of all pairs
        self._pairs: dict[str, list[pd.DataFrame]] = defaultdict(list)  # by role

    def add(self, maps: np.ndarray, is_text: np.ndarray, pairs: Mapping[str, np.ndarray]) -> None:
        """Add a passage: maps (layers, H, T, T), which tokens are text, and `role_pairs`."""
        self._layers_heads = maps.shape[:2]
        visible = np.argwhere(text_before_text(is_text))
        self._cells.add(self._table(maps, visible))
        for role, of_role in pairs.items():
            self._pairs[role].append(self._table(maps, of_role))
        self._passages += 1

    def _table(self, maps: np.ndarray, pairs: np.ndarray) -> pd.DataFrame:
        queries, keys = pairs.T
        layers, heads = maps.shape[:2]
        weights = maps[:, :, queries, keys].reshape(layers * heads, len(pairs))
        table = pd.DataFrame(weights.T.astype(np.float64))  # (P, heads of all layers)
        table["passage"] = self._passages
        table["query"] = queries
        table["cell"] = _Cells.numbers(queries, keys)
        return table

    def table(self, resamples: int, seed: int) -> Rows:
        """A row for each measured role and head: score, baseline, positions, low, high, claimed.

        layer and head count from 1. low, high: 95 % bootstrap interval of score - baseline, over
        stories. claimed: that difference is at least `MARGIN`, and higher than 0 by `claims` over
        all roles and heads. Roles with fewer than `MIN_POSITIONS` are left out.
        """
        rows: Rows = []
        for role in ROLES:
            if self._pairs[role]:
                rows += self._score(role, resamples, seed)
        p_values = []
        for row in rows:
            gain = row["score"] - row["baseline"]
            p_values.append(p_of_interval(gain, row["low"], row["high"], row.pop("passages")))
        for row, is_significant in zip(rows, claims(p_values, ERROR_RATE)):
            row["claimed"] = bool(is_significant) and row["score"] - row["baseline"] >= MARGIN
        return rows

    def _score(self, role: str, resamples: int, seed: int) -> Rows:
        """The rows of one role, without `claimed`; none if it has too few positions."""
        pairs = pd.concat(self._pairs[role], ignore_index=True)
        expected = self._expected(role, pairs)
        is_comparable = expected.notna().all(axis=1)
        pairs = pairs[is_comparable]
        expected = expected[is_comparable]
        positions = pairs.groupby("passage")["query"].nunique()  # of each passage that has any
        count = int(positions.sum())
        if count < MIN_POSITIONS:
            return []
        on_role = pairs[expected.columns].groupby(pairs["passage"]).sum()  # (passages, heads)
        by_position = expected.groupby(pairs["passage"]).sum()
        values = pd.concat([on_role - by_position, positions], axis=1)
        values = values.reindex(range(self._passages), fill_value=0)
        table = head_table(*self._layers_heads)
        table["role"] = role
        table["score"] = on_role.sum() / count
        table["baseline"] = by_position.sum() / count
        table["positions"] = count
        table["passages"] = len(positions)
        table["low"], table["high"] = bootstrap_intervals(
            values.to_numpy(), ratios_to_last, resamples, seed
        )
        return table.to_dict("records")

    def _expected(self, role: str, pairs: pd.DataFrame) -> pd.DataFrame:
        """The baseline's weight for each pair and head; NaN where there is nothing to compare."""
        if role not in POSITIONAL:
            return self._cells.means_without(pairs)
        even = 1.0 / (pairs["query"] + 1)
        heads = pairs.columns.drop(["passage", "query", "cell"])
        return pd.DataFrame(dict.fromkeys(heads, even))
