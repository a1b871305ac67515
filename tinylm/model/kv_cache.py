"""Keys and values of past tokens, kept so that a decoding step computes one token only."""

from typing import NamedTuple

import torch
from torch import Tensor

# Share of changed slots below which copying them one by one is faster than copying all.
FEW = 0.25


class KVCache:
    """Fixed-size buffers of keys and values, one pair (B, H, S, Dh) per layer.

    Row b's token at position p is in slot p, whatever the other rows hold, so rows may have unequal
    lengths: a query at position p looks at slots 0..p of its row. Slots past p may hold leftovers.
    The mask hides them until they are overwritten.

    used: the slots that any row has filled; attention reads no further.
    """

    def __init__(
        self, layers: int, rows: int, heads: int, capacity: int, head_width: int, like: Tensor
    ) -> None:
        self.capacity = capacity
        self.used = 0
        shape = (rows, heads, capacity, head_width)
        self.keys = [like.new_zeros(shape) for _ in range(layers)]
        self.values = [like.new_zeros(shape) for _ in range(layers)]

    @property
    def nbytes(self) -> int:
        """Size of all buffers in bytes."""
        return sum(buffer.nbytes for buffer in self.keys + self.values)

    def reserve(self, positions: Tensor) -> int:
        """Make room for tokens at these positions, before they are stored; returns the last one.

        Raises ValueError if that is past the capacity.
        """
        last = int(positions.max())
        if last >= self.capacity:
            raise ValueError(f"position {last} lies past the cache's {self.capacity} slots")
        self.used = max(self.used, last + 1)
        return last

    def rewind(self, used: int) -> None:
        """Forget all but the first `used` slots."""
        self.used = used

    def store(
        self, layer: int, keys: Tensor, values: Tensor, positions: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Store (B, H, T, Dh) at positions (B or 1, T).

        Returns the used part (B, H, S, Dh) of the layer's keys and values.
        """
        rows = torch.arange(keys.shape[0], device=keys.device)[:, None]
        self.keys[layer][rows, :, positions] = keys.transpose(1, 2).to(self.keys[layer].dtype)
        self.values[layer][rows, :, positions] = values.transpose(1, 2).to(self.values[layer].dtype)
        return self.keys[layer][:, :, : self.used], self.values[layer][:, :, : self.used]

    def select(self, rows: Tensor, changed: Tensor | None = None) -> None:
        """Keep the given rows, in the given order.

        A row may be taken several times (beams) or not at all. `changed` (M, used) marks the slots
        in which row i differs from row rows[i]; None: all of them. If they are few, as between
        beams, only these are copied. More rows than before need new buffers.
        """
        count = len(rows)
        few = None
        if changed is not None and count <= len(self.keys[0]):
            row, slot = changed.nonzero(as_tuple=True)
            if len(row) < FEW * count * self.used:
                few = (row, slot, rows[row])
        for buffers in (self.keys, self.values):
            for layer, buffer in enumerate(buffers):
                buffers[layer] = self._selected(buffer, rows, few)

    def _selected(
        self, buffer: Tensor, rows: Tensor, few: tuple[Tensor, Tensor, Tensor] | None
    ) -> Tensor:
        """A buffer with the given rows; few: (row, slot, source row) of the only changes."""
        count = len(rows)
        used = buffer[:, :, : self.used]
        if few is not None:
            row, slot, source = few
            used[row, :, slot] = used[source, :, slot]
            return buffer[:count]
        taken = used.index_select(0, rows)
        if count > len(buffer):
            buffer = buffer.new_zeros((count, *buffer.shape[1:]))
        buffer[:count, :, : self.used] = taken
        return buffer[:count]

    def put(self, rows: Tensor, other: "KVCache") -> None:
        """Overwrite the given rows with those of another cache of the same shape."""
        for mine, theirs in zip(self.keys + self.values, other.keys + other.values, strict=True):
            mine[rows, :, : other.used] = theirs[:, :, : other.used]
        self.used = max(self.used, other.used)


class LayerCache(NamedTuple):
    """One layer of a cache, for new tokens at positions (B or 1, T)."""

    cache: KVCache
    layer: int
    positions: Tensor

    def store(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store new keys and values; returns all that the layer holds."""
        return self.cache.store(self.layer, keys, values, self.positions)
