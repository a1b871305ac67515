"""The operations of training that compute the same values as `tinylm.model.ops.REFERENCE` faster, or in less memory."""

import functools

import torch
from torch import Tensor
from torch.nn import functional as F

from tinylm.kernels.library import CannotCompile
from tinylm.kernels.train import binding
from tinylm.kernels.train.attention import NativeAttention, torch_attention
from tinylm.kernels.train.dropout import NativeAddDropout, NativeDropout
from tinylm.kernels.train.feed_forward import ACTIVATIONS, FeedForwardBF16
from tinylm.kernels.train.norm import KINDS, NativeNorm, NormByHand
from tinylm.kernels.train.output_loss import output_loss
from tinylm.model.ops import Ops, Reference, turned


class ByHand(Reference):
    """Hand-written gradients of norm and output layer: less is kept for the backward pass. Any device and precision.

    fused: torch's own attention, which CUDA fuses. loss: of the output layer, in chunks of rows (chunked), in smaller
    chunks whose logits are computed twice (twice), or as in the reference (plain).
    """

    native = False
    low_weight: Tensor | None = (
        None  # `output_loss.in_low` of the output layer, if somebody keeps it
    )
    input_table: Tensor | None = (
        None  # of a tied layer's numbers too, but with a gradient of its own
    )

    def __init__(self, fused: bool = False, loss: str = "chunked") -> None:
        self.fused, self.loss = fused, loss

    def lookup(self, ids: Tensor, table: Tensor, is_output: bool) -> Tensor:
        table = table if self.input_table is None else self.input_table
        return F.embedding(ids, table, sparse=is_output and ids.device.type == "cpu")

    def attention(
        self, qkv: Tensor, scale: Tensor, mask: Tensor, dropout: float, turns: Tensor | None = None
    ) -> Tensor:
        if self.fused:
            return torch_attention(qkv if turns is None else turned(qkv, turns), scale, dropout)
        return super().attention(qkv, scale, mask, dropout, turns)

    def norm(
        self,
        x: Tensor,
        gain: Tensor,
        bias: Tensor | None,
        eps: float,
        kind: str,
        for_product: bool = False,
    ) -> Tensor:
        if kind not in KINDS:
            return super().norm(x, gain, bias, eps, kind)
        return NormByHand.apply(x, gain, bias, eps, kind)

    def output_loss(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
    ) -> Tensor:
        if self.loss == "plain":
            return super().output_loss(hidden, weight, bias, targets)
        return output_loss(
            hidden, weight, bias, targets, self.loss == "twice", self.native, self.low_weight
        )


class Native(ByHand):
    """C++ for all but the products, in bfloat16 under autocast on a CPU; otherwise, and in torch.compile, `ByHand`.

    Results are rounded less often than after torch's several passes over memory, so they differ by rounding.
    """

    native = True

    def attention(
        self, qkv: Tensor, scale: Tensor, mask: Tensor, dropout: float, turns: Tensor | None = None
    ) -> Tensor:
        if self.fused or not _usable(qkv):
            return super().attention(qkv, scale, mask, dropout, turns)
        return NativeAttention.apply(qkv, scale, mask, dropout, turns)

    def norm(
        self,
        x: Tensor,
        gain: Tensor,
        bias: Tensor | None,
        eps: float,
        kind: str,
        for_product: bool = False,
    ) -> Tensor:
        if kind not in KINDS or not _usable(x):
            return super().norm(x, gain, bias, eps, kind)
        return NativeNorm.apply(x, gain, bias, eps, kind, for_product)

    def feed_forward(
        self,
        x: Tensor,
        up: Tensor,
        up_bias: Tensor | None,
        down: Tensor,
        down_bias: Tensor | None,
        activation: str,
    ) -> Tensor:
        if activation not in ACTIVATIONS or not _usable(x):
            return super().feed_forward(x, up, up_bias, down, down_bias, activation)
        return FeedForwardBF16.apply(
            x.to(torch.bfloat16), up, up_bias, down, down_bias, ACTIVATIONS[activation]
        )

    def dropout(self, x: Tensor, dropout: float) -> Tensor:
        if not dropout or not _usable(x) or x.dtype != torch.float32:
            return super().dropout(x, dropout)
        return NativeDropout.apply(x, dropout)

    def add_dropout(self, x: Tensor, y: Tensor, dropout: float) -> Tensor:
        if not dropout or not _usable(x):
            return super().add_dropout(x, y, dropout)
        return NativeAddDropout.apply(x, y, dropout)


def _usable(x: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


@functools.cache
def why_no_kernels() -> str:
    """Why this machine has no native kernels, in words; empty if it has them. The first call compiles them."""
    try:
        binding.library()
    except CannotCompile as error:
        return str(error)
    return ""


def why_not_native(precision: str, device: torch.device) -> str:
    """Why such a run computes with torch alone, in words; empty if native kernels are used."""
    if precision != "bf16" or device.type != "cpu":
        return "native ones are for bf16 on a CPU"
    return why_no_kernels()


def kernels_sha256() -> str:
    """Part of the SHA-256 of the compiled kernels themselves: of sources, flags and compiler by what they made."""
    return binding.KERNELS.sha256()[:16]


def training_ops(
    precision: str, device: torch.device, fused: bool = False, loss: str = "chunked"
) -> Ops:
    """The fastest operations that this machine has for a run in `precision` (fp32 | tf32 | bf16) on the device."""
    kind = ByHand if why_not_native(precision, device) else Native
    return kind(fused, loss)
