"""Rows of a token stream: how each layout cuts the spans that a model is trained and scored on.

A row of n tokens that starts at s has the inputs ids[s : s + n] and the targets
ids[s + 1 : s + n + 1].
"""

import itertools
from dataclasses import dataclass

import numpy as np

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.vocab.token_store import TokenStore

UNSCORED = -1  # not an id: where <pad> has the id of <eos>, <eos> is still scored


@dataclass(frozen=True)
class Rows:
    """The start of each row in the stream, and its length in tokens; both (rows,) int64."""

    starts: np.ndarray
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)

    def gather(
        self, ids: np.ndarray, rows: np.ndarray, shift: int, pad_id: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """(inputs, targets) of these rows, (B, T) int64 each, padded right.

        shift: added to every start; the stream is read as a ring. Targets are UNSCORED in the padding.
        """
        lengths = self.lengths[rows]
        width = int(lengths.max())
        span = np.arange(width + 1)
        positions = self.starts[rows, None] + (span + shift)
        tokens = ids.take(positions, mode="wrap").astype(np.int64)  # (B, T + 1)
        inputs = tokens[:, :-1].copy()  # never a view, since words are hidden in place
        targets = tokens[:, 1:].copy()
        if lengths.min() < width:
            outside = span[:width] >= lengths[:, None]
            inputs[outside] = pad_id
            targets[outside] = UNSCORED
        return inputs, targets


def rows_of(store: TokenStore, layout: str, context: int, ring: bool) -> Rows:
    """The rows of a layout; ring: whether the stream's first token follows its last one.

    Raises InputError if there is none.
    """
    check_rows(store, layout, context)
    if layout == "stories":
        return _story_rows(store.offsets, context)
    if layout == "windows":
        return _window_rows(len(store.ids) - 1, context)
    return _stream_rows(len(store.ids) - (not ring), context)


def check_rows(store: TokenStore, layout: str, context: int) -> None:
    """Raise InputError if a split has no row of this layout."""
    tokens = len(store.ids)
    if layout == "windows" and tokens <= context:
        raise InputError(
            f"{PARAMS_FILE}: model.context: expected at most {max(tokens - 1, 0)} with train.layout: "
            f"windows, since split {store.name} has only {tokens} tokens, got {context}"
        )
    longest = int(np.diff(store.offsets).max(initial=0)) if layout == "stories" else tokens
    if longest < 2:
        unit = "a story" if layout == "stories" else "a stream"
        raise InputError(
            f"split {store.name}: expected {unit} of at least two tokens, one to read and one to "
            f"predict, got {longest}"
        )


def _story_rows(offsets: np.ndarray, context: int) -> Rows:
    """One story per row; a story longer than the context continues in another row."""
    starts: list[int] = []
    lengths: list[int] = []
    for start, end in itertools.pairwise(offsets.tolist()):
        targets = end - start - 1  # the first token is only an input
        for first in range(0, targets, context):
            starts.append(start + first)
            lengths.append(min(context, targets - first))
    return Rows(np.array(starts, np.int64), np.array(lengths, np.int64))


def _stream_rows(targets: int, context: int) -> Rows:
    """Non-overlapping windows over this many targets; the last one may be short."""
    starts = np.arange(0, targets, context)
    return Rows(starts, np.minimum(context, targets - starts))


def _window_rows(targets: int, context: int) -> Rows:
    """Every window of the context, at stride 1."""
    starts = np.arange(targets - context + 1)
    return Rows(starts, np.full_like(starts, context))
