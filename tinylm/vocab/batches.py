"""Batches of inputs and targets shifted by one, each a pure function of its index.

Rows are spans of the token stream: a row of n tokens is inputs ids[s : s + n] and targets
ids[s + 1 : s + n + 1]. The layouts differ only in how the spans are cut, so one gather serves all.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.seeding import derive_seed
from tinylm.vocab.token_store import TokenStore

LAYOUTS = ("stories", "stream", "windows")
UNSCORED = -1  # no id: where <pad> shares its id with <eos>, <eos> still counts
POOL_BATCHES = 64  # within which rows are sorted by length: little padding, still shuffled


@dataclass(frozen=True)
class Batch:
    """inputs, targets: (B, T) int64, targets -1 where nothing is scored; tokens: scored targets."""

    inputs: torch.Tensor
    targets: torch.Tensor
    tokens: int

    def on(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """(inputs, targets) on that device; from pinned memory without waiting for the copy."""
        inputs = self.inputs.to(device, non_blocking=True)
        return inputs, self.targets.to(device, non_blocking=True)

    def padded(self, rows: int, width: int) -> "Batch":
        """The batch in (rows, width), with rows and columns added that are not scored."""
        missing = (0, width - self.inputs.shape[1], 0, rows - self.inputs.shape[0])
        inputs = F.pad(self.inputs, missing)
        return Batch(inputs, F.pad(self.targets, missing, value=UNSCORED), self.tokens)

    def pinned(self) -> "Batch":
        """The batch in memory that a CUDA card copies from while it computes."""
        return Batch(self.inputs.pin_memory(), self.targets.pin_memory(), self.tokens)


@dataclass(frozen=True)
class _Rows:
    """Where in the stream the rows start (None: row i at token i), and their lengths."""

    starts: np.ndarray | None
    lengths: np.ndarray

    def all_starts(self) -> np.ndarray:
        """Where each row starts, as an array."""
        return np.arange(len(self)) if self.starts is None else self.starts

    def __len__(self) -> int:
        return len(self.lengths)

    def gather(self, ids: np.ndarray, rows: np.ndarray, shift: int, pad_id: int) -> Batch:
        """The rows' inputs and targets, padded right; the stream is read as a ring."""
        starts = rows if self.starts is None else self.starts[rows]
        lengths = self.lengths[rows]
        width = int(lengths.max())
        span = np.arange(width + 1)
        positions = starts[:, None] + (span + shift)
        tokens = ids.take(positions, mode="wrap").astype(np.int64)  # (B, T + 1)
        inputs = np.ascontiguousarray(tokens[:, :-1])
        targets = np.ascontiguousarray(tokens[:, 1:])
        if lengths.min() < width:
            outside = span[:width] >= lengths[:, None]
            inputs[outside] = pad_id
            targets[outside] = UNSCORED
        return Batch(torch.from_numpy(inputs), torch.from_numpy(targets), int(lengths.sum()))


def _story_rows(offsets: np.ndarray, context: int) -> _Rows:
    """One story per row; a story longer than the context continues in another row."""
    scored = np.maximum(np.diff(offsets) - 1, 0)
    pieces = -(-scored // context)
    story = np.repeat(np.arange(len(scored)), pieces)
    piece = np.arange(len(story)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    before = piece * context  # tokens of the story in earlier rows
    return _Rows(offsets[story] + before, np.minimum(context, scored[story] - before))


def _stream_rows(targets: int, context: int) -> _Rows:
    """Windows over that many targets, non-overlapping, the last one short."""
    starts = np.arange(0, targets, context)
    return _Rows(starts, np.minimum(context, targets - starts))


def _window_rows(targets: int, context: int) -> _Rows:
    """Every window of the context: row i starts at token i. InputError if there is none."""
    if targets < context:
        raise InputError(
            f"{PARAMS_FILE}: train.layout = 'windows': a split of {targets + 1} tokens has no "
            f"window of {context + 1}; allowed: model.context at most {targets}, or more data"
        )
    lengths = np.broadcast_to(np.int64(context), targets - context + 1)  # one number in memory
    return _Rows(None, lengths)


def _rows(store: TokenStore, layout: str, context: int, ring: bool) -> _Rows:
    """The rows of a layout; ring: the stream's first token follows its last one."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout {layout!r}; allowed: {LAYOUTS}")
    if layout == "stories":
        return _story_rows(store.offsets, context)
    if layout == "windows":
        return _window_rows(len(store.ids) - 1, context)
    return _stream_rows(len(store.ids) - (not ring), context)


class TrainBatches:
    """Training batches without end; batch(index) depends on nothing else, so a resumed run
    continues exactly.

    layout "stories": one story per row, rows of similar length together (pools of shuffled rows
    sorted by length, then the batches shuffled), each batch as wide as its longest row. Every token
    but `<sos>` is a target once per epoch. layout "stream": windows of the context over the stream,
    read as a ring from a random place in each epoch, shuffled; one window per epoch is short. Every
    token is a target once per epoch; the very first `<sos>` follows the last `<eos>`. layout
    "windows": every window of the context at stride 1 once per epoch, shuffled; memory holds no
    window, only the order of this epoch, 8 bytes per window. All but the tokens at the ends are a
    target `context` times.
    """

    def __init__(
        self, store: TokenStore, layout: str, batch_size: int, context: int, pad_id: int, seed: int
    ) -> None:
        self._rows = _rows(store, layout, context, ring=True)
        self._ids = np.asarray(store.ids)
        self._layout = layout
        self._pad_id = pad_id
        self._seed = seed
        self.batch_size = batch_size
        self.tokens_per_epoch = int(self._rows.lengths.sum())
        self._order: tuple[int, int, list[np.ndarray]] = (-1, 0, [])

    def __len__(self) -> int:
        """Batches per epoch, including the last ragged one."""
        return -(-len(self._rows) // self.batch_size)

    def _epoch(self, epoch: int) -> tuple[int, list[np.ndarray]]:
        """(shift of the stream, rows of each batch) of one epoch; the newest one is cached."""
        if self._order[0] != epoch:
            rng = np.random.default_rng(derive_seed(self._seed, "batches", self._layout, epoch))
            rows = rng.permutation(len(self._rows))
            shift = 0
            if self._layout == "stream":
                shift = int(rng.integers(len(self._ids)))
            elif self._layout == "stories":
                pool = np.arange(len(rows)) // (POOL_BATCHES * self.batch_size)
                rows = rows[np.lexsort((self._rows.lengths[rows], pool))]
            batches = np.split(rows, np.arange(self.batch_size, len(rows), self.batch_size))
            order = rng.permutation(len(batches))
            self._order = (epoch, shift, [batches[index] for index in order])
        return self._order[1:]

    def batch(self, index: int) -> Batch:
        """Batch number `index`, counted over all epochs: epoch = index // len(self)."""
        epoch, within = divmod(index, len(self))
        shift, batches = self._epoch(epoch)
        return self._rows.gather(self._ids, batches[within], shift, self._pad_id)


class Prefetcher:
    """Prepares in a thread what the next updates need, while the current one is computed.

    prepare(update): what is needed for the update after so many others.
    """

    def __init__(self, prepare: Callable[[int], list[Batch]], ahead: int = 2) -> None:
        self._prepare = prepare
        self._ahead = ahead
        self._thread = ThreadPoolExecutor(1, "batches")
        self._futures: dict[int, Future[list[Batch]]] = {}

    def get(self, update: int) -> list[Batch]:
        """What `prepare` returns for the update; the next ones are begun."""
        for number in range(update, update + 1 + self._ahead):
            if number not in self._futures:
                self._futures[number] = self._thread.submit(self._prepare, number)
        for number in list(self._futures):
            if number < update:
                del self._futures[number]
        return self._futures[update].result()


def scoring_batches(
    store: TokenStore, layout: str, batch_size: int, context: int, pad_id: int
) -> Iterator[Batch]:
    """The whole split once, in order: layout "stream" non-overlapping windows, the last one short,
    every token but the very first a target; layouts "stories" and "windows" as in training."""
    rows = _rows(store, layout, context, ring=False)
    ids = np.asarray(store.ids)
    for first in range(0, len(rows), batch_size):
        yield rows.gather(ids, np.arange(first, min(first + batch_size, len(rows))), 0, pad_id)


def scoring_starts(store: TokenStore, layout: str, context: int) -> np.ndarray:
    """Where each row of `scoring_batches` starts: its target t is token start + 1 + t. (rows,)"""
    return _rows(store, layout, context, ring=False).all_starts()
