"""Where each attention head looks, as means over many sentences.

What depends on the position of keys alone is here; roles have a baseline (`head_roles`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

MEASURES = ("first", "self", "entropy_nats", "distance_tokens")


class HeadStatistics:
    """Means over all queries of all sentences, for each layer and head.

    For a query at position i with visible keys 0..i:
      first             weight on key 0 and on <sos> and <eos>, which are in `boundary_ids`
      self              weight on key i
      entropy_nats      - sum of w ln w; exp of it is the number of tokens in view
      distance_tokens   sum of w * (i - key)
    Query 0 sees only itself and is left out.
    """

    def __init__(self, boundary_ids: Sequence[int]):
        self._boundary_ids = np.asarray(boundary_ids, dtype=np.int64)
        self._sums: np.ndarray | float = 0.0  # (layers, heads, measures)
        self._queries = 0

    def add(self, maps: np.ndarray, ids: np.ndarray) -> None:
        """Add one sentence: maps (layers, H, T, T) [query, key] and its token ids (T,).

        A sentence of one token adds nothing.
        """
        length = len(ids)
        if length < 2:
            return
        weights = maps[..., 1:, :].astype(np.float64)  # (layers, H, queries, T)
        first = np.isin(ids, self._boundary_ids)
        first[0] = True
        positive = np.where(weights > 0, weights, 1.0)
        distances = np.subtract.outer(np.arange(1, length), np.arange(length))
        sums = [
            (weights * first).sum(axis=(-2, -1)),
            weights.diagonal(1, axis1=-2, axis2=-1).sum(axis=-1),
            -(positive * np.log(positive)).sum(axis=(-2, -1)),
            (weights * distances).sum(axis=(-2, -1)),
        ]
        self._sums = self._sums + np.stack(sums, axis=-1)
        self._queries += length - 1

    def table(self) -> list[dict[str, Any]]:
        """A row for each head: layer and head (from 1) and its means; no rows without sentences."""
        if isinstance(self._sums, float):
            return []
        rows = []
        for layer, head in np.ndindex(self._sums.shape[:2]):
            means = (self._sums[layer, head] / self._queries).tolist()
            row = dict(zip(MEASURES, means, strict=True))
            rows.append({"layer": layer + 1, "head": head + 1, **row})
        return rows
