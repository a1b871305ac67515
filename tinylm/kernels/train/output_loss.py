"""Output layer and cross-entropy as one operation with hand-written gradients, in chunks of rows.

The logits of a batch (N, V) would be the largest tensor of a training step, and autograd would keep
several of that size. Here only one chunk of rows exists at a time. `TorchOutputLoss` is the plainest
version; the others compute the same with C++ or on CUDA.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tinylm.kernels.train.binding import DTYPES
from tinylm.kernels.train.cuda_output_loss import CudaOutputLoss
from tinylm.kernels.train.linear import fast_linear, uses_onednn
from tinylm.kernels.train.loss_function import LossFunction, chunks, product_dtype
from tinylm.kernels.train.softmax_gradient import native_softmax_gradient, torch_softmax_gradient
from tinylm.model.ops import cross_entropy, output_token_loss

# Bytes of logits in memory at a time. With fewer rows a product takes longer per row.
LOGITS_BYTES = 32 << 20
SUM_WORDS = 1024  # words whose weight gradients are added at a time, so that they stay in the cache
PART_ROWS = 64  # rows whose softmax is computed at a time


def output_loss(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    native: bool = False,
    compiled: bool = False,
) -> Tensor:
    """cross_entropy(hidden weight^T + bias, targets), with hand-written gradients.

    hidden (N, D), weight (V, D), bias (V,) or None, targets (N,) -> scalar, sum of nats. Equal to
    the reference in exact arithmetic. Under autocast, products are in autocast's type. The softmax
    uses C++ on a CPU if native, torch.compile on CUDA if compiled, and otherwise plain torch.
    """
    tensors = [tensor for tensor in (hidden, weight, bias) if tensor is not None]
    if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
        return output_token_loss(hidden, weight, bias, targets).sum(dtype=torch.float64)
    if hidden.is_cuda:
        return CudaOutputLoss.apply(hidden, weight, bias, targets, compiled)
    scored = (targets >= 0).nonzero()[:, 0]  # the other rows are left out of all products
    hidden = hidden.index_select(0, scored)
    targets = targets[scored]
    if not len(targets):
        return cross_entropy(F.linear(hidden, weight, bias), targets)
    if native and product_dtype(hidden) in DTYPES:
        return NativeOutputLoss.apply(hidden, weight, bias, targets)
    return TorchOutputLoss.apply(hidden, weight, bias, targets)


class TorchOutputLoss(LossFunction):
    """The loss on a CPU, with torch alone. All rows must be scored."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
    ) -> Tensor:
        layer = OutputLayer(hidden, weight, bias, ctx.needs_input_grad[1])
        total = hidden.new_zeros(())
        for rows in layer.chunks():
            logits = layer.logits(rows)
            total += torch_softmax_gradient(logits, targets[rows], PART_ROWS)
            grad_logits = logits  # the same memory
            grad_rows = fast_linear(grad_logits, layer.w.T)
            layer.grad_hidden[rows] = grad_rows
            if layer.grad_bias is not None:
                layer.grad_bias += grad_logits.sum(0)
            layer.add_weight_gradient(rows, grad_logits, layer.h[rows])
            del logits, grad_logits, grad_rows  # frees them before the next chunk's are allocated
        return LossFunction.finish(
            ctx, total, layer.grad_hidden, layer.grad_weight, layer.grad_bias
        )


class NativeOutputLoss(LossFunction):
    """The loss on a CPU, with the softmax in C++. All rows must be scored.

    C++ leaves out one factor per row of the logits' gradient. It is applied to the smaller tensors
    (n, D) instead.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
    ) -> Tensor:
        layer = OutputLayer(hidden, weight, bias, ctx.needs_input_grad[1])
        total = hidden.new_zeros(())
        for rows in layer.chunks():
            logits = layer.logits(rows)
            nats, factors = native_softmax_gradient(logits, targets[rows])
            total += nats
            numerators = logits  # the same memory: the gradient of the logits is this times factors
            grad_rows = fast_linear(numerators, layer.w.T)
            torch.mul(grad_rows, factors, out=layer.grad_hidden[rows])
            if layer.grad_bias is not None:
                layer.grad_bias += (factors.to(numerators.dtype).T @ numerators)[0]
            if layer.grad_weight is not None:
                scaled = (layer.h[rows] * factors).to(numerators.dtype)
                layer.add_weight_gradient(rows, numerators, scaled)
            del logits, numerators, grad_rows  # frees them before the next chunk's are allocated
        return LossFunction.finish(
            ctx, total, layer.grad_hidden, layer.grad_weight, layer.grad_bias
        )


class OutputLayer:
    """The inputs of the output layer in the type of its products, and the gradients of those inputs.

    h (N, D), w (V, D), b (V,) or None. grad_weight is None if the weight needs no gradient.
    """

    def __init__(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, needs_weight: bool
    ) -> None:
        dtype = product_dtype(hidden)
        self.h = hidden.to(dtype)
        self.w = weight.to(dtype)
        self.b = None if bias is None else bias.to(dtype)
        self.grad_hidden = torch.empty_like(hidden)
        self.grad_weight = torch.empty_like(weight) if needs_weight else None
        self.grad_bias = None if bias is None else torch.zeros_like(bias)

    def chunks(self) -> Iterator[slice]:
        """Slices of rows whose logits are in memory at a time."""
        return chunks(len(self.h), chunk_rows(self.w))

    def logits(self, rows: slice) -> Tensor:
        """Logits of these rows.  -> (n, V)"""
        return fast_linear(self.h[rows], self.w, self.b)

    def add_weight_gradient(self, rows: slice, grad_logits: Tensor, h: Tensor) -> None:
        """Add grad_logits^T h of these rows to the weight's gradient, if it needs one."""
        if self.grad_weight is not None:
            is_first = rows.start == 0
            self.grad_weight = add_weight_gradient(self.grad_weight, grad_logits, h, is_first)


def chunk_rows(weight: Tensor) -> int:
    """How many rows of logits are in memory at a time.  weight (V, D)"""
    return max(PART_ROWS, LOGITS_BYTES // (weight.itemsize * len(weight)))


def add_weight_gradient(total: Tensor, grad_logits: Tensor, h: Tensor, is_first: bool) -> Tensor:
    """total + grad_logits^T h, in place where possible. The first chunk ignores total, which is empty.

    grad_logits (n, V), h (n, D), total (V, D).
    """
    if uses_onednn(h):  # transposed, since oneDNN would copy grad_logits to transpose it
        addend = fast_linear(h.T, grad_logits.T).T
        return addend if is_first else total.add_(addend)
    if total.dtype == h.dtype:
        return total.addmm_(grad_logits.T, h, beta=0.0 if is_first else 1.0)
    addend = grad_logits.T @ h
    if is_first:
        return total.copy_(addend)
    # In parts: a CPU first converts the addend to total's type, and a part of it stays in the cache.
    for part, addend_part in zip(total.split(SUM_WORDS), addend.split(SUM_WORDS), strict=True):
        part += addend_part
    return total
