"""A batch of texts being generated, each step of which is one call of the compiled code."""

import ctypes
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tinylm.decoding.session import Session, check_finite, window_start
from tinylm.kernels.decoding.build import library
from tinylm.kernels.decoding.choosing import Answer, Asked, ask, draw, largest, threads_for
from tinylm.kernels.decoding.threads import Threads
from tinylm.kernels.decoding.weights import PackedModel
from tinylm.model.transformer import TinyLM

_INTEGER, _POINTER = ctypes.c_int64, ctypes.c_void_p
AT_ONCE = 512  # rows of one call: bounds the memory of its intermediate results
ALONE = (
    12 << 20
)  # bytes of weights times rows; below this a second thread costs as much as it saves


class _Step(ctypes.Structure):
    _fields_ = [
        *((name, _INTEGER) for name in ("rows", "outputs", "cache_rows", "capacity", "threads")),
        *(
            (name, _POINTER)
            for name in ("tokens", "positions", "sequences", "wanted", "table", "keys", "values")
        ),
        *(("logits", _POINTER), ("asked", Asked)),
    ]


def _give_back(packed: PackedModel, buffers: Tensor) -> None:
    """Keep the buffers of a finished session for the next one: new memory costs a page fault per page."""
    packed.spare = [buffers]


class Slots:
    """Keys and values of `rows` rows of fixed size; `run` feeds tokens to them. All arguments are whole numbers."""

    def __init__(self, packed: PackedModel, rows: int, capacity: int) -> None:
        settings = packed.settings
        self.packed, self.capacity = packed, capacity
        shape = (2, settings.layers, rows, settings.heads, capacity, packed.slot_width)
        fitting = [spare for spare in packed.spare if spare.shape == shape]
        kind = torch.float32 if packed.precision == "fp32" else torch.float16
        self.buffers = fitting[0] if fitting else torch.zeros(shape, dtype=kind)  # keys and values
        packed.spare = []
        weakref.finalize(self, _give_back, packed, self.buffers)
        self.logits = torch.empty(rows, packed.vocab_size)
        self._numbers = np.zeros(
            (4, max(rows, AT_ONCE)), np.int64
        )  # tokens, positions, sequences, wanted
        pointers = [row.ctypes.data for row in self._numbers]
        keys, values = (half.data_ptr() for half in self.buffers)
        self._step = _Step(0, 0, rows, capacity, 1, *pointers, None, keys, values, None)
        self._references = ctypes.byref(packed.structure), ctypes.byref(self._step)

    def run(
        self, rows: np.ndarray, wanted: np.ndarray, table: np.ndarray, into: Tensor | Asked
    ) -> bool:
        """Feed rows (3, R) of token, position and sequence; put logits after the rows `wanted` into a tensor (W, V), or
        what is asked of them into `Asked`; returns whether the logits of those rows are finite.

        table (sequences, capacity) int32: the row that has each slot of a sequence. A sequence's tokens come in order.
        """
        step, finite = self._step, True
        count, done = rows.shape[1], 0
        step.table = table.ctypes.data
        most = torch.get_num_threads() if count * self.packed.product_bytes > ALONE else 1
        threads = self.packed.threads.setdefault((count, most), Threads(most))
        step.threads, start_s = threads.now, time.perf_counter()
        for start in range(0, count, self._numbers.shape[1]):
            part = rows[:, start : start + self._numbers.shape[1]]
            here = (
                wanted[(wanted >= start) & (wanted < start + part.shape[1])]
                if len(wanted) != count
                else wanted
            )
            self._numbers[:3, : part.shape[1]] = part
            self._numbers[3, : len(here)] = here - start
            step.rows, step.outputs = part.shape[1], len(here)
            if isinstance(into, Asked):
                step.asked = into.after(done)
            else:
                step.asked.k, step.logits = (
                    0,
                    into.data_ptr() + done * into.stride(0) * into.itemsize,
                )
            finite = bool(library().tinylm_step(*self._references)) and finite
            done += len(here)
        threads.took(time.perf_counter() - start_s)
        return finite


def window_logits(packed: PackedModel, ids: Sequence[int]) -> Tensor:
    """Logits after each token of one window, as the compiled step gives them.  -> (T, V)"""
    count = len(ids)
    slots, logits = Slots(packed, 1, count), torch.empty(count, packed.vocab_size)
    rows = np.array([ids, range(count), [0] * count])
    for start in range(0, count, AT_ONCE):  # the logits of all rows are wanted
        part = rows[:, start : start + AT_ONCE]
        slots.run(
            part,
            np.arange(part.shape[1]),
            np.zeros((1, count), np.int32),
            logits[start : start + AT_ONCE],
        )
    return logits


class FastSession(Session):
    """`Session` over packed weights: keys and values never move, a row's table says where each of its slots is.

    The rows that descend from one prompt are a family of at most `beams`; the r-th of family f writes into row
    f * beams + r of the cache. All rows of a family are at the same position, so nobody reads that slot yet; older
    slots are shared by all descendants of their writer. `next_logits` returns a buffer of the session's own, which the
    next call overwrites.
    """

    def __init__(
        self,
        packed: PackedModel,
        model: TinyLM,
        prompts: Sequence[Sequence[int]],
        slide: str = "half",
        use_cache: bool = True,
        new_tokens: int | None = None,
        beams: int = 1,
    ) -> None:
        super().__init__(model, prompts, slide=slide, use_cache=use_cache, new_tokens=new_tokens)
        self._beams = beams
        self._take(packed)

    def _take(self, packed: PackedModel) -> None:
        """Compute with these weights from here on; nothing of the rows is in the cache yet."""
        self._slots = Slots(packed, self.rows * self._beams, self.capacity)
        self._family = np.arange(self.rows)
        self._renumber(np.zeros((self.rows, self.capacity), np.int32))

    def _renumber(self, table: np.ndarray) -> None:
        """After a change of rows: which cache row each one writes into, and views of what it shares with torch."""
        self._table, self._numbers = np.ascontiguousarray(table), np.arange(len(table))
        rank = np.zeros(len(table), np.int64)
        if self._beams > 1:
            order = np.argsort(self._family, kind="stable")
            ordered = self._family[order]
            rank[order] = self._numbers - np.searchsorted(ordered, ordered)
            assert rank.max() < self._beams
        self._own = self._family * self._beams + rank
        self._known, self._count, self._filled = (
            self._ids.numpy(),
            self.lengths.numpy(),
            self._starts.numpy(),
        )

    @property
    def cache_bytes(self) -> int:
        return self._slots.buffers.nbytes if self.use_cache else 0

    def next_logits(self) -> Tensor:
        logits = self._slots.logits[: self.rows]
        self._next(logits)
        if not library().tinylm_finite(logits.data_ptr(), logits.numel(), threads_for(logits)):
            check_finite(logits)
        return logits

    def _ask(self, k: int, banned: Sequence[int], with_sums: bool) -> Answer:
        """What is asked of the next token's logits, which never exist all at once."""
        bans = np.array(sorted(set(banned)), np.int64)
        asked, answer = ask(self.rows, min(k, self.model.vocab_size), bans, with_sums)
        if not self._next(asked):
            check_finite(torch.full((1,), torch.nan))
        return answer

    def greedy(self, banned: Sequence[int]) -> Tensor:
        return self._ask(1, banned, False)[1][:, 0]

    def likeliest(self, logits: Tensor) -> Tensor:
        return largest(logits.contiguous(), 1, with_sums=False)[1][:, 0]

    def largest(self, logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
        return largest(logits.contiguous(), k, with_sums=False)[:2]

    def draw(self, logits: Tensor, u: Tensor, temperature: float) -> Tensor:
        return draw(logits.contiguous(), u, temperature)

    def candidates(self, k: int, banned: Sequence[int]) -> tuple[Tensor, Tensor]:
        values, ids, log_sums = self._ask(k, banned, True)
        return torch.from_numpy(
            np.subtract(values.numpy(), log_sums.numpy()[:, None], dtype=np.float64)
        ), ids

    def _next(self, into: Tensor | Asked) -> bool:
        """Feed what is new; put logits of each row's next token into a tensor (B, V), or what is asked of them."""
        starts = window_start(self._count, self.context, self.slide)
        if not self.use_cache or (starts != self._filled).any():
            rows, wanted = self._windows(starts)
        else:
            last = self._count - 1
            positions = last - starts
            self._table[self._numbers, positions] = self._own
            rows, wanted = (
                np.array([self._known[self._numbers, last], positions, self._numbers]),
                self._numbers,
            )
        return self._slots.run(rows, wanted, self._table, into)

    def _windows(self, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What to feed after windows moved: each window, without what a row shares with the first of its family."""
        firsts: dict[int, int] = {}
        parts: list[np.ndarray] = []
        for row, (start, count) in enumerate(
            zip(starts.tolist(), self._count.tolist(), strict=True)
        ):
            window = self._known[row, start:count]
            first, common = firsts.setdefault(int(self._family[row]), row), 0
            if self.use_cache and start == self._filled[row]:
                common = len(window) - 1
            else:
                if first != row:
                    differs = np.nonzero(self._known[first, start : count - 1] != window[:-1])[0]
                    common = int(differs[0]) if len(differs) else len(window) - 1
                    self._table[row, :common] = self._table[first, :common]
            self._table[row, common : len(window)] = self._own[row]
            places = np.arange(common, len(window))
            parts.append(np.stack([window[common:], places, np.full_like(places, row)]))
        self._filled[:] = starts
        return np.concatenate(parts, axis=1), np.cumsum([part.shape[1] for part in parts]) - 1

    def append(self, tokens: Tensor) -> None:
        if self.longest == self._ids.shape[1]:
            self._ids = torch.nn.functional.pad(self._ids, (0, self.longest))  # double the space
            self._known = self._ids.numpy()
        self._known[self._numbers, self._count] = tokens.numpy()
        self._count += 1
        self.longest += 1

    def select(self, rows: Tensor) -> None:
        taken = rows.numpy()
        held = (self._known, self._count, self._filled)
        self._ids, self.lengths, self._starts = (torch.from_numpy(each[taken]) for each in held)
        self._family = self._family[taken]
        self._renumber(self._table[taken])


class LateSession(FastSession):
    """`FastSession` whose first step is the plain one's: the first word does not wait until the weights are packed."""

    def __init__(
        self,
        pack: Callable[[], PackedModel],
        model: TinyLM,
        prompts: Sequence[Sequence[int]],
        **how: Any,
    ) -> None:
        Session.__init__(self, model, prompts, **how)
        self._beams, self._pack, self._packed = 1, pack, False

    def next_logits(self) -> Tensor:
        return super().next_logits() if self._packed else Session.next_logits(self)

    def greedy(self, banned: Sequence[int]) -> Tensor:
        return super().greedy(banned) if self._packed else Session.greedy(self, banned)

    def candidates(self, k: int, banned: Sequence[int]) -> tuple[Tensor, Tensor]:
        return (
            super().candidates(k, banned) if self._packed else Session.candidates(self, k, banned)
        )

    def append(self, tokens: Tensor) -> None:
        if self._packed:
            return super().append(tokens)
        Session.append(self, tokens)
        self._cache, self._starts = None, torch.full_like(self._starts, -1)
        self._take(self._pack())
        self._packed = True

    def select(self, rows: Tensor) -> None:
        return super().select(rows) if self._packed else Session.select(self, rows)
