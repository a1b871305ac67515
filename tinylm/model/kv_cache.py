"""Keys and values of past tokens, kept so that a decoding step computes one token only."""

import copy
from typing import NamedTuple

import torch
from torch import Tensor

FEW = 0.25  # share of changed slots; below this, copying them one by one is faster than copying all


class KVCache:
    """Fixed-size buffers of keys and values, one pair (B, H, S, Dh) per layer.

    Row b's token at position p is in slot p, whatever the other rows hold, so rows may have unequal lengths:
    a query at position p looks at slots 0..p of its row. Slots past p may hold leftovers; the mask hides them
    until they are overwritten.
    """

    def __init__(
        self, layers: int, rows: int, heads: int, capacity: int, head_width: int, like: Tensor
    ) -> None:
        self.capacity = capacity
        self.used = 0  # slots that any row has filled; attention reads no further
        self.fixed = False
        shape = (rows, heads, capacity, head_width)
        self.keys = [like.new_zeros(shape) for _ in range(layers)]
        self.values = [like.new_zeros(shape) for _ in range(layers)]

    @property
    def nbytes(self) -> int:
        """Size of all buffers in bytes."""
        return sum(buffer.nbytes for buffer in self.keys + self.values)

    def reach(self, last_position: int) -> None:
        """Say how far the next tokens reach, before they are stored. Raises ValueError past the capacity."""
        if last_position >= self.capacity:
            raise ValueError(
                f"position {last_position} lies past the cache's {self.capacity} slots"
            )
        self.used = max(self.used, last_position + 1)

    def fix(self) -> None:
        """From now on attention reads all slots at every step, so that steps differ in values and not in shapes.

        The caller ensures that no position is past the capacity: this is not checked, so the device need not answer.
        """
        self.fixed, self.used = True, self.capacity

    def admit(self, positions: Tensor) -> int:
        """`reach` the last of the positions; that position, or 0 for a fixed cache."""
        if self.fixed:
            return 0
        last = int(positions.max())
        self.reach(last)
        return last

    def rewind(self, used: int) -> None:
        """Say how many slots are filled from now on."""
        self.used = self.capacity if self.fixed else used

    def whole(self) -> "KVCache":
        """A cache on the same buffers, which a `select` of this one to fewer rows leaves unchanged."""
        other = copy.copy(self)
        other.keys, other.values = [*self.keys], [*self.values]
        return other

    def store(
        self, layer: int, keys: Tensor, values: Tensor, positions: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Store (B, H, T, Dh) at positions (B or 1, T); return the filled part (B, H, S, Dh) of both buffers."""
        rows = torch.arange(keys.shape[0], device=keys.device)[:, None]
        self.keys[layer][rows, :, positions] = keys.transpose(1, 2).to(self.keys[layer].dtype)
        self.values[layer][rows, :, positions] = values.transpose(1, 2).to(self.values[layer].dtype)
        return self.keys[layer][:, :, : self.used], self.values[layer][:, :, : self.used]

    def storing(self, layer: int, positions: Tensor) -> "Storing":
        """`store` of one layer at the given positions."""
        return Storing(self, layer, positions)

    def select(self, rows: Tensor, changed: Tensor | None = None) -> None:
        """Keep the given rows, in the given order; a row may be taken several times (beams) or not at all.

        `changed` (M, used) marks the slots in which row i differs from row rows[i]; None: all of them.
        If they are few, as between beams, only these are copied. More rows than before need new buffers.
        """
        count = len(rows)
        grows = count > len(self.keys[0])
        pairs = None
        if changed is not None and not grows:
            row, slot = changed.nonzero(as_tuple=True)
            pairs = (row, slot, rows[row]) if len(row) < FEW * count * self.used else None
        for buffers in (self.keys, self.values):
            for layer, buffer in enumerate(buffers):
                used = buffer[:, :, : self.used]
                if grows:
                    buffer = buffer.new_zeros((count, *buffer.shape[1:]))
                    buffer[:, :, : self.used] = used.index_select(0, rows)
                elif pairs is None:
                    used[:count] = used.index_select(0, rows)
                else:
                    row, slot, source = pairs
                    used[row, :, slot] = used[source, :, slot]
                buffers[layer] = buffer[:count]

    def put(self, rows: Tensor, other: "KVCache") -> None:
        """Overwrite the given rows with those of another cache of the same shape."""
        for mine, theirs in zip(self.keys + self.values, other.keys + other.values, strict=True):
            mine[rows, :, : other.used] = theirs[:, :, : other.used]
        self.used = max(self.used, other.used)


class Storing(NamedTuple):
    """`KVCache.store` of one layer at given positions (B or 1, T)."""

    cache: KVCache
    layer: int
    positions: Tensor

    def __call__(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """New keys and values in, all that the cache holds out."""
        return self.cache.store(self.layer, keys, values, self.positions)
