"""Batches of inputs and targets shifted by one (teacher forcing), each a pure function of its index.

Rows are spans of the token stream: a row of n tokens is inputs ids[s : s + n] and targets ids[s + 1 : s + n + 1].
Both layouts only differ in how the spans are cut, so that one gather serves them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from tinylm.seeding import derive_seed
from tinylm.text.token_store import TokenStore

LAYOUTS = ("stories", "stream")
POOL_BATCHES = 64  # rows sorted by length among so many batches: little padding, still a shuffle


@dataclass(frozen=True)
class Batch:
    """inputs (B, T) int64; targets (B, T) int64, pad_id where none is scored; tokens: scored targets."""

    inputs: torch.Tensor
    targets: torch.Tensor
    tokens: int


def _gather(ids: np.ndarray, starts: np.ndarray, lengths: np.ndarray, pad_id: int) -> Batch:
    """Rows of `lengths` (B,) tokens from `starts` (B,), padded right; the stream is read as a ring."""
    width = int(lengths.max())
    span = np.arange(width + 1)
    rows = ids[(starts[:, None] + span) % len(ids)].astype(np.int64)  # (B, T + 1)
    inside = span[:width] < lengths[:, None]
    inputs = np.where(inside, rows[:, :-1], pad_id)
    targets = np.where(inside, rows[:, 1:], pad_id)
    return Batch(torch.from_numpy(inputs), torch.from_numpy(targets), int(lengths.sum()))


def _story_rows(offsets: np.ndarray, context: int) -> tuple[np.ndarray, np.ndarray]:
    """Starts and lengths of the rows, in order; a story longer than the context goes on in a further row."""
    scored = np.maximum(np.diff(offsets) - 1, 0)
    pieces = -(-scored // context)
    story = np.repeat(np.arange(len(scored)), pieces)
    piece = np.arange(len(story)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    return offsets[story] + piece * context, np.minimum(context, scored[story] - piece * context)


def _window_rows(targets: int, context: int) -> tuple[np.ndarray, np.ndarray]:
    """Starts and lengths of windows over so many targets, non-overlapping, the last one short."""
    starts = np.arange(0, targets, context)
    return starts, np.minimum(context, targets - starts)


class TrainBatches:
    """Training batches without end; batch(index) depends on nothing else, so that a resumed run goes on exactly.

    layout "stories": one story a row, rows of similar length together (pools of shuffled rows sorted by length,
    then the batches shuffled), each batch as wide as its longest row. Every token but `<sos>` is a target once an
    epoch.
    layout "stream": windows of the context over the stream closed to a ring, from a place drawn for each epoch,
    shuffled; one window an epoch is short. Every token is a target once an epoch, the very first `<sos>` as what
    follows the last `<eos>`.
    """

    def __init__(self, store: TokenStore, layout: str, batch_size: int, context: int, pad_id: int, seed: int) -> None:
        if layout not in LAYOUTS:
            raise ValueError(f"layout {layout!r}; allowed: {LAYOUTS}")
        self._ids, self._layout, self._pad_id, self._seed = store.ids, layout, pad_id, seed
        self._batch_size = batch_size
        if layout == "stories":
            self._starts, self._lengths = _story_rows(store.offsets, context)
        else:
            self._starts, self._lengths = _window_rows(len(store.ids), context)
        self.tokens_per_epoch = int(self._lengths.sum())
        self._order: tuple[int, int, list[np.ndarray]] = (-1, 0, [])

    def __len__(self) -> int:
        """Batches an epoch, the last ragged one included."""
        return -(-len(self._starts) // self._batch_size)

    def _epoch(self, epoch: int) -> tuple[int, list[np.ndarray]]:
        """(shift of the stream, rows of each batch) of one epoch; the last epoch asked for is kept."""
        if self._order[0] != epoch:
            rng = np.random.default_rng(derive_seed(self._seed, "batches", self._layout, epoch))
            rows = rng.permutation(len(self._starts))
            shift = 0
            if self._layout == "stream":
                shift = int(rng.integers(len(self._ids)))
            else:
                pool = np.arange(len(rows)) // (POOL_BATCHES * self._batch_size)
                rows = rows[np.lexsort((self._lengths[rows], pool))]
            batches = np.split(rows, np.arange(self._batch_size, len(rows), self._batch_size))
            order = rng.permutation(len(batches))
            self._order = (epoch, shift, [batches[place] for place in order])
        return self._order[1:]

    def batch(self, index: int) -> Batch:
        """Batch number `index`, counted through all epochs: epoch = index // len(self)."""
        epoch, place = divmod(index, len(self))
        shift, batches = self._epoch(epoch)
        rows = batches[place]
        return _gather(self._ids, self._starts[rows] + shift, self._lengths[rows], self._pad_id)


def scoring_batches(store: TokenStore, layout: str, batch_size: int, context: int, pad_id: int) -> Iterator[Batch]:
    """The whole split once, in order: layout "stream" non-overlapping windows, the last one short, every token but
    the very first a target; layout "stories" as in training."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout {layout!r}; allowed: {LAYOUTS}")
    if layout == "stories":
        starts, lengths = _story_rows(store.offsets, context)
    else:
        starts, lengths = _window_rows(len(store.ids) - 1, context)
    for first in range(0, len(starts), batch_size):
        rows = slice(first, first + batch_size)
        yield _gather(store.ids, starts[rows], lengths[rows], pad_id)
