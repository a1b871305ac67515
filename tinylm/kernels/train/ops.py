"""Training operations: the results of `tinylm.model.ops.REFERENCE` in less time or memory."""

import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tinylm.kernels.library import CannotCompile
from tinylm.kernels.train import binding
from tinylm.kernels.train.attention import NativeAttention, check_causal, torch_attention
from tinylm.kernels.train.dropout import NativeAddDropout, NativeDropout
from tinylm.kernels.train.linear import linear
from tinylm.kernels.train.norm import KINDS, ManualGradNorm, NativeNorm
from tinylm.kernels.train.output_loss import output_loss
from tinylm.model.ops import Ops, apply_rotary
from tinylm.model.recompute import RunBlock, run_block


class ManualGradOps(Ops):
    """Hand-written gradients of norm and output layer: less is kept for the backward pass.

    For any device and precision. fused_attention: use torch's attention, which is fused on CUDA.
    """

    native = False

    def __init__(self, fused_attention: bool = False) -> None:
        self.fused_attention = fused_attention

    def lookup(self, ids: Tensor, table: Tensor, is_output: bool) -> Tensor:
        return F.embedding(ids, table, sparse=is_output and ids.device.type == "cpu")

    def linear(self, x: Tensor, layer: nn.Linear) -> Tensor:
        return linear(x, layer)

    def attention(
        self,
        qkv: Tensor,
        scale: float,
        mask: Tensor,
        dropout: float,
        rope_cache: Tensor | None = None,
    ) -> Tensor:
        if not self.fused_attention:
            return super().attention(qkv, scale, mask, dropout, rope_cache)
        check_causal(mask)
        if rope_cache is not None:
            qkv = apply_rotary(qkv, rope_cache)
        return torch_attention(qkv, scale, dropout)

    def norm(self, x: Tensor, gain: Tensor, bias: Tensor | None, eps: float, kind: str) -> Tensor:
        if kind not in KINDS:
            return super().norm(x, gain, bias, eps, kind)
        return ManualGradNorm.apply(x, gain, bias, eps, kind)

    def output_loss(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
    ) -> Tensor:
        return output_loss(hidden, weight, bias, targets, self.native)


class CudaOps(ManualGradOps):
    """For a CUDA card. compiled: leave the formulas to torch.compile, which fuses them."""

    def __init__(self, fused_attention: bool, compiled: bool) -> None:
        super().__init__(fused_attention)
        self.compiled = compiled

    def norm(self, x: Tensor, gain: Tensor, bias: Tensor | None, eps: float, kind: str) -> Tensor:
        if self.compiled:
            return Ops.norm(self, x, gain, bias, eps, kind)
        return super().norm(x, gain, bias, eps, kind)

    def output_loss(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
    ) -> Tensor:
        return output_loss(hidden, weight, bias, targets, compiled=self.compiled)


class NativeOps(ManualGradOps):
    """C++ on a CPU for all but linear layers: in float32, or in bfloat16 under autocast.

    torch makes several passes over memory and rounds after each; C++ rounds less often, so the last
    digits differ. In float64 these are `ManualGradOps`.
    """

    native = True

    def __init__(self, fused_attention: bool = False) -> None:
        super().__init__(fused_attention)
        self.draws_in_thread = not fused_attention

    def attention(
        self,
        qkv: Tensor,
        scale: float,
        mask: Tensor,
        dropout: float,
        rope_cache: Tensor | None = None,
    ) -> Tensor:
        if self.fused_attention or not _usable(qkv):
            return super().attention(qkv, scale, mask, dropout, rope_cache)
        check_causal(mask)
        return NativeAttention.apply(qkv, scale, dropout, rope_cache)

    def norm(self, x: Tensor, gain: Tensor, bias: Tensor | None, eps: float, kind: str) -> Tensor:
        if kind not in KINDS or x.device.type != "cpu" or x.dtype != torch.float32:
            return super().norm(x, gain, bias, eps, kind)
        return NativeNorm.apply(x, gain, bias, eps, kind)

    def dropout(self, x: Tensor, dropout: float) -> Tensor:
        if not dropout or not _usable(x) or x.dtype != torch.float32:
            return super().dropout(x, dropout)
        return NativeDropout.apply(x, dropout)

    def add_dropout(self, x: Tensor, y: Tensor, dropout: float) -> Tensor:
        if not dropout or not _usable(x) or not _usable(y):
            return super().add_dropout(x, y, dropout)
        return NativeAddDropout.apply(x, y, dropout)


def _usable(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype in binding.DTYPES


@functools.cache
def why_no_kernels() -> str:
    """Why this machine has no native kernels, in words; empty if it has them.

    The first call compiles them.
    """
    try:
        binding.functions()
    except CannotCompile as error:
        return str(error)
    return ""


def why_not_native(device: torch.device) -> str:
    """Why a run on this device uses torch alone, in words; empty if it uses native kernels."""
    if device.type != "cpu":
        return "native kernels need a CPU"
    return why_no_kernels()


def training_ops(
    device: torch.device, fused_attention: bool = False, compiled: bool = False
) -> Ops:
    """The fastest operations that this machine has, in any precision."""
    if device.type == "cuda":
        return CudaOps(fused_attention, compiled)
    kind = ManualGradOps if why_not_native(device) else NativeOps
    return kind(fused_attention)


def compiled_run_block(backend: str = "inductor") -> RunBlock:
    """`run_block` under torch.compile, which fuses all but matrix products; compiled once per shape."""
    options: dict[str, Any] | None = None
    if backend == "inductor":
        # On tensor cores, products with sides that are not multiples of 8 take several times as long.
        options = {"shape_padding": True, "force_shape_pad": True}
    compiled: RunBlock = torch.compile(run_block, dynamic=False, backend=backend, options=options)

    def run(block: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return compiled(block, x, mask)
        # The first pass of a recomputed block. Without gradients torch would compile other kernels,
        # whose results differ in their last bits from those of the second pass.
        with torch.enable_grad():
            output = compiled(block, x.detach().requires_grad_(), mask)
        return output.detach()

    return run
