"""The decoding step on a CUDA card, recorded once as a CUDA graph and then replayed.

A graph has fixed shapes and always reads and writes the same memory. So the numbers of rows and
slots are padded to a few sizes, and the cache lies in a buffer that belongs to the step.
"""

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tinylm.decoding.session import Step
from tinylm.model import cuda_graph
from tinylm.model.kv_cache import KVCache
from tinylm.model.transformer import TinyLM

SLOTS_MULTIPLE = 64  # attention reads a multiple of this many slots


class _FixedCache(KVCache):
    """A cache over a given buffer, whose attention always reads all slots.

    The causal mask hides the slots past a row's position.
    """

    def __init__(self, buffer: Tensor) -> None:
        self.buffer = buffer
        self.capacity = buffer.shape[-2]
        self.used = self.capacity

    def reserve(self, positions: Tensor) -> int:
        return self.used - 1  # reading the positions would wait for the card


@dataclass(frozen=True)
class _Graph:
    """tokens, positions (rows, 1) and logits (rows, V) on the device; `replay` computes the logits."""

    tokens: Tensor
    positions: Tensor
    logits: Tensor
    replay: Callable[[], None]


class GraphedStep(Step):
    """`Step` as CUDA graphs: one for each padded number of rows and of slots, recorded when needed.

    On a CPU nothing is recorded, and a replay computes the step directly; tests use this. The
    buffer holds the cache of one session at a time. When another session takes its turn, the
    previous one's cache is copied to memory of its own.
    """

    name = "graphed"

    def __init__(self, model: TinyLM) -> None:
        super().__init__(model)
        self._device = model.embedding.device
        self._buffer = model.new_cache(0).buffer  # (2, L, rows, H, context, Dh)
        self._held: weakref.ref[KVCache] | None = None  # the cache that lies in the buffer
        self._graphs: dict[tuple[int, int], _Graph] = {}

    def advance(self, tokens: np.ndarray, positions: np.ndarray, cache: KVCache) -> Tensor:
        rows = len(tokens)
        last = cache.reserve(torch.from_numpy(positions))
        self._hold(cache, rows)
        slots = math.ceil((last + 1) / SLOTS_MULTIPLE) * SLOTS_MULTIPLE
        slots = min(slots, self._buffer.shape[-2])
        graph = self._graph(_padded_rows(rows), slots)
        both = torch.from_numpy(np.stack([tokens, positions]))[:, :, None]
        if self._device.type == "cuda":
            both = both.pin_memory().to(self._device, non_blocking=True)
        graph.tokens[:rows].copy_(both[0])
        graph.positions[:rows].copy_(both[1])
        graph.replay()
        return graph.logits[:rows].clone()

    def _hold(self, cache: KVCache, rows: int) -> None:
        """Move the cache into the step's buffer, unless it lies there already."""
        if rows > self._buffer.shape[2]:
            self._release()
            self._graphs.clear()  # these read the old buffer
            self._buffer = self.model.new_cache(_padded_rows(rows)).buffer
        if self._held is not None and self._held() is cache and self._has_memory_of(cache):
            return
        self._release()
        mine = self._buffer[:, :, :rows, :, : cache.capacity]
        mine.copy_(cache.buffer)
        cache.buffer = mine
        self._held = weakref.ref(cache)

    def _release(self) -> None:
        """Copy the cache that lies in the buffer to memory of its own."""
        held = self._held() if self._held else None
        if held is not None and self._has_memory_of(held):
            held.buffer = held.buffer.clone()
        self._held = None

    def _has_memory_of(self, cache: KVCache) -> bool:
        """Whether the cache's tensor begins where the step's buffer does.

        A cache that was moved there leaves it when `KVCache.reorder` makes more rows.
        """
        return cache.buffer.data_ptr() == self._buffer.data_ptr()

    def _graph(self, rows: int, slots: int) -> _Graph:
        """The graph for `rows` rows and `slots` slots, recorded when first needed."""
        key = (rows, slots)
        if key not in self._graphs:
            tokens = torch.zeros(rows, 1, dtype=torch.int64, device=self._device)
            positions = torch.zeros_like(tokens)
            shape = (rows, self.model.vocab_size)
            logits = torch.empty(shape, dtype=torch.float32, device=self._device)
            cache = _FixedCache(self._buffer[:, :, :rows, :, :slots])

            def compute() -> None:
                hidden = self.model.hidden_states(tokens, positions, cache)
                logits.copy_(self.model.logits(hidden[:, 0]))

            self._graphs[key] = _Graph(tokens, positions, logits, self._record(compute))
        return self._graphs[key]

    def _record(self, compute: Callable[[], None]) -> Callable[[], None]:
        """A function that repeats `compute`; on a card, a recording of it."""
        if self._device.type != "cuda":
            return compute
        first_slot = self._buffer[..., 0, :].clone()  # where warm-ups store keys and values
        graph = cuda_graph.record(compute, warm_up=compute)
        self._buffer[..., 0, :].copy_(first_slot)
        replay: Callable[[], None] = graph.replay
        return replay


def _padded_rows(rows: int) -> int:
    """The smallest power of two that is not below `rows`."""
    return 1 << (rows - 1).bit_length()
