"""Eight roles of attention heads, each measured against a baseline of positions alone."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from tinylm.evaluate.attention_maps import head_table
from tinylm.evaluate.settings import Rows
from tinylm.evaluate.statistics import HIGHER, Effect, bootstrap_intervals, claims, ratios_to_last
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
WORD_ROLES = ("subject-verb", "article-noun", "preposition-object", "adjective-noun")
MARGIN = 0.10  # a role is claimed from this share of the weight above the baseline
LEVEL = 0.01  # chance that any role is claimed of heads that have none; the report has 0.04 for the rest
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
    starts = np.array(row.starts)
    has_start = np.flatnonzero(starts >= 0)
    earlier = _text_before_text(row.text)
    is_previous = np.eye(len(starts), k=-1, dtype=bool)
    pairs = _word_pairs(row)
    pairs["previous token"] = np.argwhere(earlier & is_previous)
    pairs["punctuation"] = np.argwhere(earlier & np.array(row.marks))
    pairs["sentence start"] = np.column_stack([has_start, starts[has_start]])
    pairs["similar words"] = np.argwhere(earlier & _similar(row, vectors))
    return pairs


def _text_before_text(text: Sequence[bool]) -> np.ndarray:
    """(T, T) [query, key]: whether both tokens are text and the key is before the query."""
    is_text = np.array(text)
    is_before = np.tri(len(text), k=-1, dtype=bool)
    return is_before & is_text & is_text[:, None]


def _word_pairs(row: Row) -> RolePairs:
    """The pairs of the roles that depend on word classes."""
    words = row.words
    keys: list[tuple[str, int, int | None]] = []  # role, query, key
    for query in range(len(words)):
        keys.append(("subject-verb", query, subject(words, query)))
        phrase = noun_phrase(words, query)
        if phrase is None:
            continue
        keys.append(("article-noun", query, phrase.article))
        keys.append(("preposition-object", query, preposition(words, phrase)))
        for adjective in phrase.adjectives:
            keys.append(("adjective-noun", query, adjective))
    tokens: dict[str, list[tuple[int, int]]] = {role: [] for role in WORD_ROLES}
    for role, query, key in keys:
        if key is None:
            continue
        pair = (words[query].token, words[key].token)
        if min(pair) >= 0:
            tokens[role].append(pair)
    pairs = {}
    for role in WORD_ROLES:
        pairs[role] = np.array(tokens[role], dtype=np.int64).reshape(-1, 2)
    return pairs


def _similar(row: Row, vectors: np.ndarray) -> np.ndarray:
    """(T, T): two different words of one token each whose embeddings point the same way."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(lengths, 1e-12)
    cosines = unit @ unit.T
    texts = np.full(len(row.text), "", dtype=object)
    for word in row.words:
        if word.token >= 0:
            texts[word.token] = word.text
    is_word = texts != ""
    both_words = is_word & is_word[:, None]
    differ = texts != texts[:, None]
    return (cosines > SIMILAR) & both_words & differ


class HeadRoles:
    """Scores of all heads for all roles over many passages.

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

    def add(self, maps: np.ndarray, text: Sequence[bool], pairs: Mapping[str, np.ndarray]) -> None:
        """Add a passage: maps (layers, H, T, T), which tokens are text, and `role_pairs`."""
        layers, heads, length, _ = maps.shape
        self._shape = (layers, heads)
        weights = maps.reshape(layers * heads, length, length)
        queries, keys = np.nonzero(_text_before_text(text))
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
        if role == "previous token":
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
