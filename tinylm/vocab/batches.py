"""Batches of inputs and targets shifted by one, each a pure function of its index."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from tinylm.base.seeding import derive_seed
from tinylm.vocab.rows import UNSCORED, rows_of
from tinylm.vocab.token_store import TokenStore

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


def _batch_of(inputs: np.ndarray, targets: np.ndarray) -> Batch:
    """The batch of these arrays, which it shares."""
    tokens = int(np.count_nonzero(targets != UNSCORED))
    return Batch(torch.from_numpy(inputs), torch.from_numpy(targets), tokens)


class _Epoch(NamedTuple):
    """shift: of every start in the stream. rows: all, shuffled. order: of the batches.

    Batch n, before the batches are put in this order, has the n-th `batch_size` of these rows.
    """

    shift: int
    rows: np.ndarray
    order: np.ndarray


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
    """

    def __init__(
        self,
        store: TokenStore,
        layout: str,
        batch_size: int,
        context: int,
        pad_id: int,
        seed: int,
    ) -> None:
        self._rows = rows_of(store, layout, context, ring=True)
        self._ids = np.asarray(store.ids)
        self._layout = layout
        self._pad_id = pad_id
        self._seed = seed
        self._unk_id: int | None = None
        self._unknown = 0.0
        self.batch_size = batch_size
        self.tokens_per_epoch = int(self._rows.lengths.sum())
        self._latest: tuple[int, _Epoch] | None = None

    def with_unknown(self, unk_id: int | None, share: float) -> "TrainBatches":
        """The same batches, in which some words are hidden from the model: word dropout.

        share: the probability that a word that occurs once in its row becomes `unk_id` as an input.
        Without an unk_id nothing changes.
        """
        batches = copy.copy(self)
        batches._unk_id = unk_id
        batches._unknown = share
        return batches

    def __len__(self) -> int:
        """Batches per epoch, including one with fewer rows."""
        return -(-len(self._rows) // self.batch_size)

    def tokens_of(self, mini_batches: int) -> int:
        """Scored tokens of the first `mini_batches` batches."""
        return sum(self.batch(index).tokens for index in range(mini_batches))

    def count_within(self, tokens: int) -> int:
        """How many mini-batches from the start of training fit into this many scored tokens."""
        epochs, left = divmod(tokens, self.tokens_per_epoch)
        if not left:
            return epochs * len(self)
        epoch = self._epoch(epochs)
        firsts = np.arange(0, len(epoch.rows), self.batch_size)
        totals = np.add.reduceat(self._rows.lengths[epoch.rows], firsts)[epoch.order].cumsum()
        return epochs * len(self) + int(np.searchsorted(totals, left, side="right"))

    def largest(self) -> int:
        """The index of the batch with the most inputs in the first epoch, padding included."""
        epoch = self._epoch(0)
        firsts = np.arange(0, len(epoch.rows), self.batch_size)
        widths = np.maximum.reduceat(self._rows.lengths[epoch.rows], firsts)
        inputs = widths * np.diff(firsts, append=len(epoch.rows))
        return int(np.argmax(inputs[epoch.order]))

    def batch(self, index: int) -> Batch:
        """Batch number `index`, counted over all epochs: epoch = index // len(self)."""
        number, within = divmod(index, len(self))
        epoch = self._epoch(number)
        first = epoch.order[within] * self.batch_size
        chosen = epoch.rows[first : first + self.batch_size]
        arrays = self._rows.gather(self._ids, chosen, epoch.shift, self._pad_id)
        batch = _batch_of(*arrays)
        if self._unk_id is not None and self._unknown:
            rng = np.random.default_rng(derive_seed(self._seed, "unknown", index))
            _hide_words(batch.inputs, self._unk_id, self._unknown, rng)
        return batch

    def _epoch(self, number: int) -> _Epoch:
        """One epoch; the latest is kept."""
        if self._latest is None or self._latest[0] != number:
            self._latest = (number, self._shuffled(number))
        return self._latest[1]

    def _shuffled(self, number: int) -> _Epoch:
        """The order of the rows and batches of one epoch, drawn from the seed."""
        rng = np.random.default_rng(derive_seed(self._seed, "batches", self._layout, number))
        rows = rng.permutation(len(self._rows))
        shift = 0
        if self._layout == "stream":
            shift = int(rng.integers(len(self._ids)))
        elif self._layout == "stories":
            pool = np.arange(len(rows)) // (POOL_BATCHES * self.batch_size)
            rows = rows[np.lexsort((self._rows.lengths[rows], pool))]
        return _Epoch(shift, rows, order=rng.permutation(len(self)))


def _hide_words(inputs: torch.Tensor, unk_id: int, share: float, rng: np.random.Generator) -> None:
    """Replace a share of the words by `unk_id`, in place; inputs: (B, T).

    Only a word that occurs once in its row is replaced: one that comes again is needed later.
    """
    is_drawn = torch.from_numpy(rng.random(inputs.shape) < share)
    is_word = inputs > unk_id  # special tokens have the lowest ids
    times_in_row = (inputs[:, :, None] == inputs[:, None, :]).sum(2)
    inputs[is_drawn & is_word & (times_in_row == 1)] = unk_id


def scoring_batches(
    store: TokenStore, layout: str, batch_size: int, context: int, pad_id: int
) -> Iterator[Batch]:
    """The whole split once, in order. The rows are those of training, except that layout "stream"
    starts at the first token, which is not a target."""
    rows = rows_of(store, layout, context, ring=False)
    ids = np.asarray(store.ids)
    for first in range(0, len(rows), batch_size):
        chosen = np.arange(first, min(first + batch_size, len(rows)))
        yield _batch_of(*rows.gather(ids, chosen, 0, pad_id))


def scoring_starts(store: TokenStore, layout: str, context: int) -> np.ndarray:
    """The start of each row of `scoring_batches`; target t is token start + 1 + t.  -> (rows,)"""
    return rows_of(store, layout, context, ring=False).starts
