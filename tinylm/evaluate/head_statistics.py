"""Where attention heads look, by the position of keys alone; roles have a baseline (`head_roles`)."""

from collections.abc import Collection

import numpy as np

MEASURES = ("first", "self", "entropy_nats", "distance_tokens")


def sums_over_queries(maps: np.ndarray, ids: np.ndarray, boundary: Collection[int]) -> np.ndarray:
    """Each of MEASURES, summed over the queries of one sentence: (layers, H, measures).

    maps (layers, H, T, T) [query, key]; ids (T,). For a query at position i with keys 0..i:
      first             weight on key 0 and on the keys whose ids are in `boundary`: <sos>, <eos>
      self              weight on key i
      entropy_nats      - sum of w ln w; exp of it is the number of tokens in view
      distance_tokens   sum of w * (i - key)
    Query 0 sees only itself and is left out.
    """
    length = len(ids)
    weights = maps[..., 1:, :].astype(np.float64)  # (layers, H, queries, T)
    first = np.isin(ids, list(boundary))
    first[0] = True
    positive = np.where(weights > 0, weights, 1.0)
    distances = np.subtract.outer(np.arange(1, length), np.arange(length))
    sums = [
        (weights * first).sum(axis=(-2, -1)),
        weights.diagonal(1, axis1=-2, axis2=-1).sum(axis=-1),
        -(positive * np.log(positive)).sum(axis=(-2, -1)),
        (weights * distances).sum(axis=(-2, -1)),
    ]
    return np.stack(sums, axis=-1)
