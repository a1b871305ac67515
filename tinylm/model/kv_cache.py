"""Keys and values of past tokens, kept so that a decoding step computes one token only."""

from typing import NamedTuple

import torch
from torch import Tensor


class KVCache:
    """A fixed-size buffer of keys and values, one pair (B, H, S, Dh) per layer.

    A row's token at position p is in slot p, so rows may have unequal lengths. A query at position
    p attends to slots 0..p of its row. Slots past p may hold old values. The mask hides them until
    they are overwritten.

    buffer: (2, L, B, H, S, Dh), keys before values. used: the number of slots filled in the longest
    row; attention reads no further.
    """

    def __init__(
        self,
        layers: int,
        rows: int,
        heads: int,
        capacity: int,
        head_width: int,
        like: Tensor,
    ) -> None:
        self.capacity = capacity
        self.used = 0
        shape = (2, layers, rows, heads, capacity, head_width)
        self.buffer = like.new_zeros(shape)

    @property
    def keys(self) -> Tensor:
        """Keys of all layers, (L, B, H, S, Dh)."""
        return self.buffer[0]

    @property
    def values(self) -> Tensor:
        """Values of all layers, (L, B, H, S, Dh)."""
        return self.buffer[1]

    @property
    def nbytes(self) -> int:
        """Size of the buffer in bytes."""
        return self.buffer.nbytes

    def reserve(self, positions: Tensor) -> int:
        """Extend `used` to these positions, before their tokens are stored; returns the last one.

        Raises ValueError if the last position is past the capacity.
        """
        last = int(positions.max())
        if last >= self.capacity:
            raise ValueError(f"position {last} is past the cache's {self.capacity} slots")
        self.used = max(self.used, last + 1)
        return last

    def store(
        self, layer: int, keys: Tensor, values: Tensor, positions: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Store keys and values (B, H, T, Dh) at positions (B or 1, T).

        Returns the layer's keys and values in all used slots, (B, H, S, Dh) each.
        """
        rows = torch.arange(len(keys), device=keys.device)[:, None]
        layer_keys = self.buffer[0, layer]
        layer_values = self.buffer[1, layer]
        layer_keys[rows, :, positions] = keys.transpose(1, 2).to(layer_keys.dtype)
        layer_values[rows, :, positions] = values.transpose(1, 2).to(layer_values.dtype)
        return layer_keys[:, :, : self.used], layer_values[:, :, : self.used]

    def reorder(self, rows: Tensor, from_slot: int = 0) -> None:
        """Replace row i by the present rows[i], for every i.

        A row may be taken several times (beams) or not at all. from_slot: before this slot the
        present rows i and rows[i] are equal, so only later slots are copied.
        """
        count = len(rows)
        if count > self.buffer.shape[2]:
            self.buffer = self.buffer[:, :, rows]
            return
        is_moved = rows != torch.arange(count, device=rows.device)
        moved = is_moved.nonzero()[:, 0]
        slots = self.buffer[..., from_slot : self.used, :]
        slots.index_copy_(2, moved, slots.index_select(2, rows[moved]))
        self.buffer = self.buffer[:, :, :count]

    def overwrite_rows(self, rows: Tensor, other: "KVCache") -> None:
        """Overwrite the given rows with those of another cache of the same shape."""
        filled = other.buffer[..., : other.used, :]
        self.buffer[:, :, rows, :, : other.used] = filled
        self.used = max(self.used, other.used)


class LayerCache(NamedTuple):
    """One layer of a cache, for new tokens at positions (B or 1, T)."""

    cache: KVCache
    layer: int
    positions: Tensor

    def store(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store new keys and values; returns the layer's keys and values in all used slots."""
        return self.cache.store(self.layer, keys, values, self.positions)
