"""What each attention head attends to, measured over many sentences and compared with attention spread evenly."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

WEIGHTS = ("previous", "first", "self", "same_word", "punctuation", "within_word")
FIGURES = (*WEIGHTS, "entropy_nats", "distance_tokens")

_TARGETS = {
    "previous": "the previous token",
    "first": "the first token, <sos> or <eos>",
    "self": "the token itself",
    "same_word": "an earlier occurrence of the same token",
    "punctuation": "earlier punctuation",
    "within_word": "earlier pieces of the same word",
}
_STANDS_OUT = 0.10  # share of the weight above even attention
_LOCAL, _FAR, _SHARP = 0.6, 1.2, 0.6  # ratios to even attention


class HeadTendencies:
    """Means over all queries of all sentences, for each layer and head.

    For a query at position i with visible keys 0..i:
      previous, self          weight on key i - 1, on key i
      first                   weight on key 0 and on visible keys that are in `boundary_ids` (<sos>, <eos>)
      same_word               weight on keys before i with the query's own id; only queries that have one
      punctuation             weight on keys before i that are or end with a mark; only queries that have one
      within_word             weight on keys before i in the same word or mark; only queries that have one
      entropy_nats            - sum of w ln w
      distance_tokens         sum of w * (i - key)
    Each has a companion `<name>_even`, its value where every visible key gets 1 / (i + 1): early queries see few
    keys, so a raw weight says little. Query 0 sees only itself and is left out. A key may count for several
    names (for query 1 the first token is also the previous one).
    """

    def __init__(self, boundary_ids: Sequence[int]):
        self._boundary_ids = np.asarray(boundary_ids, dtype=np.int64)
        self._sums: np.ndarray | None = None  # (layers, heads, figures)
        self._even = np.zeros(len(FIGURES))
        self._queries = np.zeros(len(FIGURES), dtype=np.int64)

    def add(
        self,
        maps: Sequence[np.ndarray],
        ids: np.ndarray,
        marks: Sequence[bool] = (),
        words: Sequence[int] = (),
    ) -> None:
        """Count one sentence: a map (H, T, T) [head, query, key] for each layer, and its token ids (T,).

        marks: which tokens are or end with punctuation; words: the number of the word that each token belongs to.
        Without them the sentence has neither. A sentence of one token adds nothing. Raises ValueError if shapes
        disagree or if a query's weights on visible keys do not sum to one.
        """
        ids = np.asarray(ids)
        weights = np.stack(
            [np.asarray(layer, dtype=np.float64) for layer in maps]
        )  # (layers, H, T, T)
        self._check(weights, len(ids))
        if len(ids) < 2:
            return
        visible = np.tri(len(ids))
        masks, asked = _masks(
            ids, self._boundary_ids, marks, words
        )  # (weights, T, T), (weights, T)
        weights = weights[..., 1:, :]
        found = _figures(weights, masks[:, 1:])
        even = _figures((visible / visible.sum(axis=1, keepdims=True))[1:], masks[:, 1:])
        self._sums = found if self._sums is None else self._sums + found
        self._even += even
        self._queries += [*asked[:, 1:].sum(axis=1), len(ids) - 1, len(ids) - 1]

    def table(self) -> list[dict[str, Any]]:
        """A row for each head: layer and head (from 1), figures, figures of even attention, interpretation.

        A figure without a single query is None. Without sentences there are no rows.
        """
        if self._sums is None:
            return []
        rows = []
        for layer, heads in enumerate(self._sums, start=1):
            for head, sums in enumerate(heads, start=1):
                row: dict[str, Any] = {"layer": layer, "head": head}
                for name, total, even, queries in zip(FIGURES, sums, self._even, self._queries):
                    row[name] = float(total / queries) if queries else None
                    row[f"{name}_even"] = float(even / queries) if queries else None
                rows.append(row | {"interpretation": interpretation(row)})
        return rows

    def _check(self, weights: np.ndarray, length: int) -> None:
        if weights.ndim != 4 or weights.shape[2:] != (length, length):
            raise ValueError(
                f"attention maps {weights.shape[1:]} for {length} ids; allowed: (heads, T, T)"
            )
        if self._sums is not None and weights.shape[:2] != self._sums.shape[:2]:
            raise ValueError(
                f"maps of {weights.shape[:2]} layers and heads after {self._sums.shape[:2]}"
            )
        if not np.allclose(np.tril(weights).sum(axis=-1), 1, atol=1e-3):
            raise ValueError(
                "attention weights of a query do not sum to one over itself and earlier tokens"
            )


def interpretation(figures: Mapping[str, Any]) -> str:
    """One line about a head, from its figures alone: what stands out most against even attention.

    A target stands out if it gets 10 points of weight more than from even attention. Without one, the mean distance
    (below 0.6 or above 1.2 times even) or the effective width (below 0.6 times even) is named: exp of the entropy, as
    many tokens as would have this entropy if they shared the weight evenly.
    """
    excess = {
        name: round(figures[name] - figures[f"{name}_even"], 9)  # ties are ties, despite rounding
        for name in WEIGHTS
        if figures[name] is not None
    }
    strongest = max(excess, key=lambda name: excess[name], default=None)
    if strongest is not None and excess[strongest] >= _STANDS_OUT:
        share, even = figures[strongest], figures[f"{strongest}_even"]
        return f"{_TARGETS[strongest]}: {share:.0%} of the weight ({even:.0%} if spread evenly)"
    distance, even = figures["distance_tokens"], figures["distance_tokens_even"]
    if distance < _LOCAL * even:
        return f"nearby tokens: {distance:.1f} back on average ({even:.1f} if spread evenly)"
    if distance > _FAR * even:
        return f"distant tokens: {distance:.1f} back on average ({even:.1f} if spread evenly)"
    width, even = np.exp(figures["entropy_nats"]), np.exp(figures["entropy_nats_even"])
    if width < _SHARP * even:
        return (
            f"tokens of no measured kind: about {width:.1f} at a time ({even:.1f} if spread evenly)"
        )
    return "spread evenly"


def _masks(
    ids: np.ndarray, boundary_ids: np.ndarray, marks: Sequence[bool], words: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Keys that count for each name of WEIGHTS (names, T, T), and the queries that have one (names, T)."""
    length = len(ids)
    first = np.isin(ids, boundary_ids)
    first[0] = True
    same_word = ids[:, None] == ids[None, :]
    marked = np.broadcast_to(np.array(marks) if len(marks) else np.zeros(length), (length, length))
    number = np.array(words) if len(words) else np.arange(length)
    within = number[:, None] == number[None, :]
    earlier = [np.tril(keys, k=-1) for keys in (same_word, marked, within)]
    masks = np.stack(
        [
            np.eye(length, k=-1),
            np.tril(np.broadcast_to(first, (length, length))),
            np.eye(length),
            *earlier,
        ]
    )
    return masks, masks.sum(axis=-1) > 0


def _figures(weights: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Sums over queries of each of FIGURES: weights (..., queries, T) -> (..., figures)."""
    queries, length = weights.shape[-2:]
    on_target = np.einsum("...qk,nqk->...n", weights, masks)
    positive = np.where(weights > 0, weights, 1.0)
    entropy = -(positive * np.log(positive)).sum(axis=(-2, -1))
    distances = np.arange(1, queries + 1)[:, None] - np.arange(
        length
    )  # (queries, T), query 0 left out
    distance = (weights * distances).sum(axis=(-2, -1))
    return np.concatenate([on_target, entropy[..., None], distance[..., None]], axis=-1)
