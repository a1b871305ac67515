"""Batches of inputs and targets shifted by one, each a pure function of its index.

Rows are spans of the token stream. A row of n tokens that starts at s has the inputs ids[s : s + n]
and the targets ids[s + 1 : s + n + 1]. The layouts differ only in how they cut the spans.
"""

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.seeding import derive_seed
from tinylm.vocab.token_store import TokenStore

UNSCORED = -1  # not an id: where <pad> has the id of <eos>, <eos> is still scored
POOL_BATCHES = 64  # batches per pool; rows are sorted by length within a pool, for little padding


@dataclass(frozen=True)
class Batch:
    """inputs, targets: (B, T) int64, targets -1 where nothing is scored; tokens: scored targets."""

    inputs: torch.Tensor
    targets: torch.Tensor
    tokens: int

    def on(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """(inputs, targets) on the device; does not wait for copies from pinned memory."""
        inputs = self.inputs.to(device, non_blocking=True)
        return inputs, self.targets.to(device, non_blocking=True)

    def padded(self, rows: int, width: int) -> "Batch":
        """The batch padded to (rows, width); what is added is not scored."""
        missing = (0, width - self.inputs.shape[1], 0, rows - self.inputs.shape[0])
        inputs = F.pad(self.inputs, missing)
        return Batch(inputs, F.pad(self.targets, missing, value=UNSCORED), self.tokens)

    def rows(self, first: int, step: int) -> "Batch":
        """Every step-th row, from `first` on; there may be none."""
        inputs = self.inputs[first::step].contiguous()
        targets = self.targets[first::step].contiguous()
        return Batch(inputs, targets, int((targets != UNSCORED).sum()))

    def pinned(self) -> "Batch":
        """The batch in pinned memory, from which a CUDA card copies while it computes."""
        return Batch(self.inputs.pin_memory(), self.targets.pin_memory(), self.tokens)


@dataclass(frozen=True)
class _Rows:
    """The start of each row in the stream, and its length."""

    starts: np.ndarray
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)

    def gather(self, ids: np.ndarray, rows: np.ndarray, shift: int, pad_id: int) -> Batch:
        """The rows' inputs and targets, padded right; the stream is read as a ring."""
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
        return Batch(torch.from_numpy(inputs), torch.from_numpy(targets), int(lengths.sum()))


def _story_rows(offsets: np.ndarray, context: int) -> _Rows:
    """One story per row; a story longer than the context continues in another row."""
    starts: list[int] = []
    lengths: list[int] = []
    for start, end in itertools.pairwise(offsets.tolist()):
        targets = end - start - 1  # the first token is only an input
        for first in range(0, targets, context):
            starts.append(start + first)
            lengths.append(min(context, targets - first))
    return _Rows(np.array(starts, np.int64), np.array(lengths, np.int64))


def _stream_rows(targets: int, context: int) -> _Rows:
    """Non-overlapping windows over this many targets; the last one may be short."""
    starts = np.arange(0, targets, context)
    return _Rows(starts, np.minimum(context, targets - starts))


def _window_rows(targets: int, context: int) -> _Rows:
    """Every window of the context, at stride 1."""
    starts = np.arange(targets - context + 1)
    return _Rows(starts, np.full_like(starts, context))


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


def _rows(store: TokenStore, layout: str, context: int, ring: bool) -> _Rows:
    """The rows of a layout; ring: whether the stream's first token follows its last one.

    Raises InputError if there is none.
    """
    check_rows(store, layout, context)
    if layout == "stories":
        return _story_rows(store.offsets, context)
    if layout == "windows":
        return _window_rows(len(store.ids) - 1, context)
    return _stream_rows(len(store.ids) - (not ring), context)


def _hide_words(inputs: torch.Tensor, unk_id: int, share: float, rng: np.random.Generator) -> None:
    """Replace a share of the words by `unk_id`, in place; inputs: (B, T).

    Only a word that occurs once in its row is replaced: one that comes again is needed later.
    """
    is_drawn = torch.from_numpy(rng.random(inputs.shape) < share)
    is_word = inputs > unk_id  # special tokens have the lowest ids
    times_in_row = (inputs[:, :, None] == inputs[:, None, :]).sum(2)
    inputs[is_drawn & is_word & (times_in_row == 1)] = unk_id


class TrainBatches:
    """An endless sequence of training batches. batch(index) depends only on the index, so a
    resumed run continues exactly.

    layout "stories": one story per row. Rows are shuffled and sorted by length within pools, then
    batches are shuffled. A batch is as wide as its longest row. Every token but `<sos>` is a target
    once per epoch.
    layout "stream": shuffled windows of the context. Each epoch starts at a random token of the
    stream, whose first token follows its last. One window per epoch may be short. Every token is a
    target once per epoch.
    layout "windows": every window of the context at stride 1, shuffled. Memory holds 24 bytes per
    window. Tokens are targets `context` times, fewer near the ends.

    unknown: the probability that a word that occurs once in its row becomes `unk_id` as an input.
    """

    def __init__(
        self,
        store: TokenStore,
        layout: str,
        batch_size: int,
        context: int,
        pad_id: int,
        seed: int,
        unk_id: int | None = None,
        unknown: float = 0.0,
    ) -> None:
        self._rows = _rows(store, layout, context, ring=True)
        self._ids = np.asarray(store.ids)
        self._layout = layout
        self._pad_id = pad_id
        self._seed = seed
        self._unk_id = unk_id
        self._unknown = unknown
        self.batch_size = batch_size
        self.tokens_per_epoch = int(self._rows.lengths.sum())
        nothing = np.empty(0, np.int64)
        self._latest: tuple[int, int, np.ndarray, np.ndarray] = (-1, 0, nothing, nothing)

    def __len__(self) -> int:
        """Batches per epoch, including one with fewer rows."""
        return -(-len(self._rows) // self.batch_size)

    def tokens_of(self, mini_batches: int) -> int:
        """Scored tokens of the first `mini_batches` batches."""
        return sum(self.batch(index).tokens for index in range(mini_batches))

    def largest(self) -> int:
        """The index of the batch with the most inputs in the first epoch, padding included."""
        _, rows, order = self._epoch(0)
        firsts = np.arange(0, len(rows), self.batch_size)
        widths = np.maximum.reduceat(self._rows.lengths[rows], firsts)
        inputs = widths * np.diff(firsts, append=len(rows))
        return int(np.argmax(inputs[order]))

    def _epoch(self, epoch: int) -> tuple[int, np.ndarray, np.ndarray]:
        """(shift of the stream, rows, order of the batches) of one epoch; the latest is cached.

        Batch n, before the batches are shuffled, has the n-th `batch_size` of these rows.
        """
        if self._latest[0] != epoch:
            rng = np.random.default_rng(derive_seed(self._seed, "batches", self._layout, epoch))
            rows = rng.permutation(len(self._rows))
            shift = 0
            if self._layout == "stream":
                shift = int(rng.integers(len(self._ids)))
            elif self._layout == "stories":
                pool = np.arange(len(rows)) // (POOL_BATCHES * self.batch_size)
                rows = rows[np.lexsort((self._rows.lengths[rows], pool))]
            self._latest = (epoch, shift, rows, rng.permutation(len(self)))
        return self._latest[1:]

    def batch(self, index: int) -> Batch:
        """Batch number `index`, counted over all epochs: epoch = index // len(self)."""
        epoch, within = divmod(index, len(self))
        shift, rows, order = self._epoch(epoch)
        first = order[within] * self.batch_size
        chosen = rows[first : first + self.batch_size]
        batch = self._rows.gather(self._ids, chosen, shift, self._pad_id)
        if self._unk_id is not None and self._unknown:
            rng = np.random.default_rng(derive_seed(self._seed, "unknown", index))
            _hide_words(batch.inputs, self._unk_id, self._unknown, rng)
        return batch


class Prefetcher:
    """Prepares the batches of the next updates in a thread, while the current one is computed.

    prepare(update): the batches of an update, counted from 0. ahead: updates to prepare in advance.
    """

    def __init__(self, prepare: Callable[[int], list[Batch]], ahead: int = 2) -> None:
        self._prepare = prepare
        self._ahead = ahead
        self._thread = ThreadPoolExecutor(1, "batches")
        self._futures: dict[int, Future[list[Batch]]] = {}

    def get(self, update: int) -> list[Batch]:
        """The batches of the update; starts to prepare those of the next ones."""
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
    """The whole split once, in order. The rows are those of training, except that layout "stream"
    starts at the first token, which is not a target."""
    rows = _rows(store, layout, context, ring=False)
    ids = np.asarray(store.ids)
    for first in range(0, len(rows), batch_size):
        yield rows.gather(ids, np.arange(first, min(first + batch_size, len(rows))), 0, pad_id)


def scoring_starts(store: TokenStore, layout: str, context: int) -> np.ndarray:
    """The start of each row of `scoring_batches`; target t is token start + 1 + t.  -> (rows,)"""
    return _rows(store, layout, context, ring=False).starts
