"""How far apart attention heads look: Jensen-Shannon divergence between the weights that two heads give."""

from typing import Any

import numpy as np

PASSAGES = 50  # of those whose tendencies are measured: pairs of heads are many


class HeadDistances:
    """Mean Jensen-Shannon divergence (Lin 1991) of every pair of heads of all layers, over all queries.

    In bits: 0 where two heads always give the same weights, 1 where they never look at the same token. Query 0 sees
    only itself and is left out.
    """

    def __init__(self) -> None:
        self._sums: np.ndarray | None = None  # (heads of all layers, the same)
        self._shape = (0, 0)
        self._queries = 0

    def add(self, maps: np.ndarray) -> None:
        """Count one sentence: maps (layers, H, T, T) [query, key]. A sentence of one token adds nothing."""
        layers, heads, length, _ = maps.shape
        if length < 2:
            return
        weights = maps.reshape(layers * heads, length, length)[:, 1:].astype(np.float64)
        own = _entropy(weights)  # (heads,), summed over queries
        found = np.zeros((len(weights), len(weights)))
        for one in range(len(weights) - 1):
            mixed = _entropy((weights[one] + weights[one + 1 :]) / 2)
            found[one, one + 1 :] = np.maximum(mixed - (own[one] + own[one + 1 :]) / 2, 0.0)
        self._sums = found if self._sums is None else self._sums + found
        self._shape = layers, heads
        self._queries += length - 1

    def table(self) -> list[dict[str, Any]]:
        """A row for each pair: layer, head, other_layer, other_head (from 1), bits. No rows without sentences."""
        if self._sums is None:
            return []
        places = [(layer + 1, head + 1) for layer, head in np.ndindex(self._shape)]
        return [
            {
                "layer": places[one][0],
                "head": places[one][1],
                "other_layer": places[other][0],
                "other_head": places[other][1],
                "bits": float(self._sums[one, other] / self._queries),
            }
            for one in range(len(places))
            for other in range(one + 1, len(places))
        ]

    def within_layers(self) -> np.ndarray:
        """Each head's mean divergence in bits from the others of its layer, (layers, heads); NaN if it is alone."""
        layers, heads = self._shape
        found = np.full(self._shape, np.nan)
        if self._sums is None or heads < 2:
            return found
        bits = (self._sums + self._sums.T) / self._queries
        for layer in range(layers):
            own = slice(layer * heads, (layer + 1) * heads)
            found[layer] = bits[own, own].sum(axis=1) / (heads - 1)
        return found


def _entropy(weights: np.ndarray) -> np.ndarray:
    """Entropy in bits of each query's weights, summed over queries: (..., queries, T) -> (...)."""
    return -(weights * np.log2(np.where(weights > 0, weights, 1.0))).sum(axis=(-2, -1))
