"""Subclasses of `tinylm.model.ops.Ops` that are faster or need less memory, but have no second derivatives."""

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
from tinylm.model.ops import TWO_BYTES, Ops, apply_rotary
from tinylm.model.recompute import RunBlock, run_block


class ManualGradOps(Ops):
    """Hand-written gradients of norms and output loss, which keep less for the backward pass.

    For any device and precision; norms of a model in float16 or bfloat16 are the reference's.
    fused_attention: use torch's attention, one kernel on CUDA.
    """

    native = False

    def __init__(self, fused_attention: bool = False) -> None:
        self.fused_attention = fused_attention

    def lookup(self, ids: Tensor, table: Tensor, is_output: bool) -> Tensor:
        # The output layer gives the table a dense gradient, to which a sparse one is added faster.
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
        if kind not in KINDS or x.dtype in TWO_BYTES:
            return super().norm(x, gain, bias, eps, kind)
        return ManualGradNorm.apply(x, gain, bias, eps, kind)

    def output_loss(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
    ) -> Tensor:
        return output_loss(hidden, weight, bias, targets, self.native)


class CudaOps(ManualGradOps):
    """For a CUDA card. compiled: leave the formula of norms to torch.compile, which fuses it."""

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
    """C++ on a CPU in float32, or in bfloat16 under autocast; linear layers use oneDNN or torch.

    C++ rounds less often than torch, so the last digits differ. In float64 these are `ManualGradOps`.
    """

    native = True

    def __init__(self, fused_attention: bool = False) -> None:
        super().__init__(fused_attention)
        self.draws_in_thread = not fused_attention  # torch's attention draws from torch's generator

    def attention(
        self,
        qkv: Tensor,
        scale: float,
        mask: Tensor,
        dropout: float,
        rope_cache: Tensor | None = None,
    ) -> Tensor:
        if self.fused_attention or not _kernels_accept(qkv):
            return super().attention(qkv, scale, mask, dropout, rope_cache)
        check_causal(mask)
        return NativeAttention.apply(qkv, scale, dropout, rope_cache)

    def norm(self, x: Tensor, gain: Tensor, bias: Tensor | None, eps: float, kind: str) -> Tensor:
        if kind not in KINDS or x.device.type != "cpu" or x.dtype != torch.float32:
            return super().norm(x, gain, bias, eps, kind)
        return NativeNorm.apply(x, gain, bias, eps, kind)

    def dropout(self, x: Tensor, dropout: float) -> Tensor:
        if not dropout or not _kernels_accept(x) or x.dtype != torch.float32:
            return super().dropout(x, dropout)
        return NativeDropout.apply(x, dropout)

    def add_dropout(self, x: Tensor, y: Tensor, dropout: float) -> Tensor:
        if not dropout or not _kernels_accept(x) or not _kernels_accept(y):
            return super().add_dropout(x, y, dropout)
        return NativeAddDropout.apply(x, y, dropout)


def _kernels_accept(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype in binding.DTYPES


@functools.cache
def compiler_problem() -> str:
    """Why the native kernels do not compile, in words; empty if they do. The first call compiles."""
    try:
        binding.functions()
    except CannotCompile as error:
        return str(error)
    return ""


def why_not_native(device: torch.device) -> str:
    """Why a run on this device uses torch alone, in words; empty if it uses native kernels."""
    if device.type != "cpu":
        return "native kernels need a CPU"
    return compiler_problem()


def training_ops(
    device: torch.device, fused_attention: bool = False, compiled: bool = False
) -> Ops:
    """The fastest operations for this device: CUDA's, or those in C++ if a compiler is found."""
    if device.type == "cuda":
        return CudaOps(fused_attention, compiled)
    if why_not_native(device):
        return ManualGradOps(fused_attention)
    return NativeOps(fused_attention)


def compiled_run_block(backend: str = "inductor") -> RunBlock:
    """`run_block` under torch.compile, which fuses all but matrix products. Compiles once per shape."""
    options: dict[str, Any] | None = None
    if backend == "inductor":
        # On tensor cores a product takes several times as long if a side is not a multiple of 8.
        options = {"shape_padding": True, "force_shape_pad": True}
    compiled: RunBlock = torch.compile(run_block, dynamic=False, backend=backend, options=options)

    def run(block: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return compiled(block, x, mask)
        # This is the first pass of a recomputed block. Without gradients torch would compile other
        # kernels, whose last bits differ from those of the second pass.
        with torch.enable_grad():
            output = compiled(block, x.detach().requires_grad_(), mask)
        return output.detach()

    return run
