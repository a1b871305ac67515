"""Where each attention head looks, as means over many sentences.

Every mean stands next to its value under even attention.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

WEIGHTS = ("previous", "first", "self", "same_word", "punctuation", "within_word")
MEASURES = (*WEIGHTS, "entropy_nats", "distance_tokens")

_TARGETS = {
    "previous": "the previous token",
    "first": "the first token, <sos> or <eos>",
    "self": "the token itself",
    "same_word": "an earlier occurrence of the same token",
    "punctuation": "earlier punctuation",
    "within_word": "earlier pieces of the same word",
}
_STANDS_OUT = 0.10  # share of the weight above even attention
# ratios to even attention
_LOCAL = 0.6
_FAR = 1.2
_SHARP = 0.6


class HeadTendencies:
    """Means over all queries of all sentences, for each layer and head.

    For a query at position i with visible keys 0..i:
      previous, self          weight on key i - 1, on key i
      first                   weight on key 0 and on <sos> and <eos>, which are in `boundary_ids`
      same_word               weight on keys before i with the query's own id
      punctuation             weight on keys before i that are or end with a mark
      within_word             weight on keys before i in the same word or mark
      entropy_nats            - sum of w ln w
      distance_tokens         sum of w * (i - key)
    A query that has no such key is left out of same_word, punctuation and within_word.
    Each measure has a companion `<name>_even`: its value where every visible key gets 1 / (i + 1),
    since early queries see few keys. Query 0 sees only itself and is left out.
    """

    def __init__(self, boundary_ids: Sequence[int]):
        self._boundary_ids = np.asarray(boundary_ids, dtype=np.int64)
        self._sums: np.ndarray | float = 0.0  # (layers, heads, measures)
        self._even = np.zeros(len(MEASURES))
        self._queries = np.zeros(len(MEASURES), dtype=np.int64)

    def add(
        self, maps: np.ndarray, ids: np.ndarray, marks: Sequence[bool], words: Sequence[int]
    ) -> None:
        """Add one sentence: maps (layers, H, T, T) [query, key] and its token ids (T,).

        marks (T,): which tokens are or end with punctuation.
        words (T,): the number of the word that each token belongs to.
        A sentence of one token adds nothing.
        """
        if len(ids) < 2:
            return
        visible = np.tri(len(ids))
        even = visible / visible.sum(axis=1, keepdims=True)
        masks = _masks(ids, self._boundary_ids, marks, words)[:, 1:]  # (weights, queries, T)
        has_key = masks.sum(axis=-1) > 0
        self._sums = self._sums + _sums(maps[..., 1:, :].astype(np.float64), masks)
        self._even += _sums(even[1:], masks)
        self._queries += [*has_key.sum(axis=1), len(ids) - 1, len(ids) - 1]

    def table(self) -> list[dict[str, Any]]:
        """A row for each head: layer and head (from 1), measures, even attention, interpretation.

        A measure without a single query is None. Without sentences there are no rows.
        """
        if isinstance(self._sums, float):
            return []
        rows = []
        for layer, head in np.ndindex(self._sums.shape[:2]):
            row: dict[str, Any] = {"layer": layer + 1, "head": head + 1}
            for index, name in enumerate(MEASURES):
                queries = self._queries[index]
                row[name] = None
                row[f"{name}_even"] = None
                if queries:
                    row[name] = float(self._sums[layer, head, index] / queries)
                    row[f"{name}_even"] = float(self._even[index] / queries)
            row["interpretation"] = interpretation(row)
            rows.append(row)
        return rows


def interpretation(row: Mapping[str, Any]) -> str:
    """One line about a head, from its measures alone: what stands out most from even attention.

    A target stands out if it gets 10 points of weight more than from even attention. Without one,
    the mean distance (below 0.6 or above 1.2 times even) or the effective width (below 0.6 times
    even) is named. The width is exp of the entropy: as many tokens have this entropy if they share
    the weight evenly.
    """
    excess = {}
    for name in WEIGHTS:
        if row[name] is not None:
            excess[name] = round(row[name] - row[f"{name}_even"], 9)  # ties despite rounding
    strongest = max(excess, key=lambda name: excess[name], default=None)
    if strongest is not None and excess[strongest] >= _STANDS_OUT:
        even = f"{row[f'{strongest}_even']:.0%} if spread evenly"
        return f"{_TARGETS[strongest]}: {row[strongest]:.0%} of the weight ({even})"
    distance = row["distance_tokens"]
    even_distance = row["distance_tokens_even"]
    back = f"{distance:.1f} back on average ({even_distance:.1f} if spread evenly)"
    if distance < _LOCAL * even_distance:
        return f"nearby tokens: {back}"
    if distance > _FAR * even_distance:
        return f"distant tokens: {back}"
    width = np.exp(row["entropy_nats"])
    even_width = np.exp(row["entropy_nats_even"])
    if width < _SHARP * even_width:
        at_a_time = f"about {width:.1f} at a time ({even_width:.1f} if spread evenly)"
        return f"tokens of no measured kind: {at_a_time}"
    return "spread evenly"


def _masks(
    ids: np.ndarray, boundary_ids: np.ndarray, marks: Sequence[bool], words: Sequence[int]
) -> np.ndarray:
    """The keys that count for each name of WEIGHTS: (weights, T, T)."""
    length = len(ids)
    first = np.isin(ids, boundary_ids)
    first[0] = True
    every_query = (length, length)
    same_word = ids[:, None] == ids[None, :]
    punctuation = np.broadcast_to(np.array(marks), every_query)
    within_word = np.equal.outer(words, words)
    return np.stack(
        [
            np.eye(length, k=-1),
            np.tril(np.broadcast_to(first, every_query)),
            np.eye(length),
            np.tril(same_word, k=-1),
            np.tril(punctuation, k=-1),
            np.tril(within_word, k=-1),
        ]
    )


def _sums(weights: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Sums over queries of each of MEASURES: weights (..., queries, T) -> (..., measures)."""
    queries, length = weights.shape[-2:]
    on_target = np.einsum("...qk,nqk->...n", weights, masks)
    positive = np.where(weights > 0, weights, 1.0)
    entropy = -(positive * np.log(positive)).sum(axis=(-2, -1))
    distances = np.subtract.outer(np.arange(1, queries + 1), np.arange(length))
    distance = (weights * distances).sum(axis=(-2, -1))
    return np.concatenate([on_target, entropy[..., None], distance[..., None]], axis=-1)
