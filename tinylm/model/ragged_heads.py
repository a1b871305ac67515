"""Attention whose H heads do not divide the width: 8 heads of 300 columns have 38 or 37."""

import torch
from torch import Tensor
from torch.nn import functional as F

from tinylm.model.ops import REFERENCE, Ops
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import SelfAttention


def head_widths(inner: int, heads: int) -> list[int]:
    """`inner` columns divided among the heads as evenly as possible; the wider ones come first."""
    return [inner // heads + (head < inner % heads) for head in range(heads)]


class RaggedSelfAttention(SelfAttention):
    """`SelfAttention` with head widths that differ by one.

    The weights are laid out with a zero column after each narrower head, so that one product serves
    all heads. A zero column adds nothing to a score, its value is zero, and each head is scaled by
    its own width.
    """

    slots: Tensor

    def __init__(self, width: int, settings: ModelSettings, ops: Ops = REFERENCE) -> None:
        super().__init__(width, settings, ops)
        widths = head_widths(self.inner, self.heads)
        self.head_width = widths[0]
        # column `inner` is the zero column
        slots = torch.full((self.heads, self.head_width), self.inner)
        for head, columns in enumerate(torch.arange(self.inner).split(widths)):
            slots[head, : len(columns)] = columns
        self.register_buffer("slots", slots.flatten(), persistent=False)
        self.scale = torch.tensor(widths, dtype=torch.float64).rsqrt().float()[:, None, None]

    def _padded(self, x: Tensor, dim: int) -> Tensor:
        """Insert the zero columns along `dim`."""
        return F.pad(x.movedim(dim, -1), (0, 1)).index_select(-1, self.slots).movedim(-1, dim)

    def padded_qkv(self) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of `qkv` with the zero columns."""
        weight = self._padded(self.qkv.weight.unflatten(0, (3, -1)), 1).flatten(0, 1)
        if self.qkv.bias is None:
            return weight, None
        return weight, self._padded(self.qkv.bias.unflatten(0, (3, -1)), 1).flatten()

    def padded_out(self) -> Tensor:
        """Weight of `out` with the zero columns."""
        return self._padded(self.out.weight, 1)

    def project(self, x: Tensor) -> Tensor:
        return F.linear(x, *self.padded_qkv()).unflatten(-1, (3, self.heads, self.head_width))

    def output_projection(self, joined: Tensor) -> Tensor:
        return F.linear(joined, self.padded_out(), self.out.bias)

    def columns(self, head: int) -> slice:
        widths = head_widths(self.inner, self.heads)
        return slice(sum(widths[:head]), sum(widths[: head + 1]))
