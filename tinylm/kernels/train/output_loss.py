"""Output layer and cross-entropy as one operation with hand-written gradients, in chunks of rows.

All logits of a batch (N, V) would be the largest tensor of a training step. Autograd would keep
several of them. Here only one chunk of rows exists at a time.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tinylm.kernels.train.binding import call, checked_ptr
from tinylm.model.loss import CHUNK_ROWS, output_token_loss

BF16 = torch.bfloat16
# Bytes of logits alive at a time in bfloat16: a product of few rows takes longer for each row.
LOGITS_BYTES = 32 << 20
SUM_WORDS = 1024  # words whose gradients are added at a time
PART_ROWS = 64  # rows whose softmax is computed at a time
CARD_PART_ROWS = 1024  # the same on CUDA, where a part is several kernels
CARD_CHUNK_ROWS = 16384  # on CUDA: the weights' gradient is added to once per chunk
# On CUDA every side of a matrix is a multiple of this: a tensor core loads 16 bytes at a time, and
# an H100 took 3.3 times as long for a product of width 300 as for one of width 304.
CARD_ALIGNMENT = 8


SoftmaxGradient = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor | None]]


@dataclass(frozen=True)
class LossKernels:
    """What `OutputLoss` computes with, apart from matrix products.

    softmax_gradient: as `torch_softmax_gradient`. chunk_rows: rows of logits alive at a time.
    alignment: width and words are filled up with zeros to a multiple of this.
    """

    softmax_gradient: SoftmaxGradient  # (logits, targets, words)
    chunk_rows: int
    alignment: int = 1


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
    the reference in exact arithmetic. Under autocast products are in its type. native: use C++ for
    what is not a product, in bfloat16 on a CPU. compiled: use torch.compile for it, on CUDA.
    """
    tensors = [tensor for tensor in (hidden, weight, bias) if tensor is not None]
    if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
        return output_token_loss(hidden, weight, bias, targets).sum(dtype=torch.float64)
    device = hidden.device.type
    dtype = hidden.dtype
    if torch.is_autocast_enabled(device) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device)
    if dtype == BF16 and device == "cpu":  # leave out rows that are not scored
        scored = (targets >= 0).nonzero()[:, 0]
        hidden = hidden.index_select(0, scored)
        targets = targets[scored]
    kernels = loss_kernels(device, dtype, len(weight), native, compiled)
    return OutputLoss.apply(hidden, weight, bias, targets, dtype, kernels)


def loss_kernels(
    device: str, dtype: torch.dtype, words: int, native: bool, compiled: bool
) -> LossKernels:
    """What the loss of a vocabulary of `words` computes with on that type of device."""
    if device == "cuda":
        softmax_gradient: SoftmaxGradient = torch_softmax_gradient
        rows = CHUNK_ROWS * 4  # what is not compiled keeps several tensors of a part's size
        if compiled:
            softmax_gradient = compiled_softmax_gradient()
            rows = CARD_CHUNK_ROWS
        return LossKernels(softmax_gradient, rows, CARD_ALIGNMENT)
    if dtype != BF16:
        return LossKernels(torch_softmax_gradient, CHUNK_ROWS)
    rows = max(PART_ROWS, LOGITS_BYTES // (BF16.itemsize * words))
    if native:
        return LossKernels(native_softmax_gradient, rows)
    return LossKernels(torch_softmax_gradient, rows)


def aligned(tensor: Tensor, dtype: torch.dtype, alignment: int, dims: int = 2) -> Tensor:
    """The tensor in that type, its last `dims` axes filled up with zeros to multiples of `alignment`."""
    padding = []
    for size in tensor.shape[: -dims - 1 : -1]:
        padding += [0, -size % alignment]
    tensor = tensor.to(dtype)
    return F.pad(tensor, padding) if any(padding) else tensor


class OutputLoss(torch.autograd.Function):
    """Loss and gradients of all inputs in one pass over chunks of rows; backward only scales them.

    With P = softmax(logits) and Y one-hot targets, rows that are not scored being zero:

    dL/dlogits = P - Y;  dhidden = (P - Y) W;  dW = (P - Y)^T hidden;  dbias = sum of rows of P - Y
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        dtype: torch.dtype,
        kernels: LossKernels,
    ) -> Tensor:
        words, width = weight.shape
        alignment = kernels.alignment
        h = aligned(hidden, dtype, alignment, dims=1)
        w = aligned(weight, dtype, alignment)
        low_bias = None if bias is None else aligned(bias, dtype, alignment, dims=1)
        rows = min(kernels.chunk_rows, len(h))
        buffer = h.new_empty(rows, len(w))
        total = hidden.new_zeros(())
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        grad_bias = None if bias is None else torch.zeros_like(bias)
        for start in range(0, len(h), rows):
            chunk = slice(start, min(start + rows, len(h)))
            logits = buffer[: chunk.stop - start]  # (n, V)
            if low_bias is not None and dtype == BF16:  # one pass and rounding instead of two
                torch.addmm(low_bias, h[chunk], w.T, out=logits)
            else:
                torch.mm(h[chunk], w.T, out=logits)
                if low_bias is not None:
                    logits += low_bias
            nats, scale = kernels.softmax_gradient(logits, targets[chunk], words)
            total += nats
            grad_rows = torch.mm(logits, w)[:, :width]
            if scale is None:
                grad_hidden[chunk] = grad_rows
                scaled = h[chunk]
            else:
                torch.mul(grad_rows, scale, out=grad_hidden[chunk])
                scaled = (h[chunk] * scale).to(dtype)
            if grad_bias is not None:
                if scale is None:
                    grad_bias += logits.sum(0)[:words]
                else:
                    grad_bias += (scale.to(dtype).T @ logits)[0]
            if grad_weight is not None:
                product = (logits.T @ scaled)[:words, :width]
                if start == 0:
                    grad_weight.copy_(product)
                else:
                    add_in_parts(grad_weight, product)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # In place: a second copy would be as large as the weights. Autograd refuses a second call.
        scaled = [None if grad is None else grad.mul_(grads[0]) for grad in ctx.saved_tensors]
        return *scaled, None, None, None


def add_in_parts(total: Tensor, product: Tensor) -> None:
    """total += product.

    A CPU converts the product to the type of the total first; a part of it stays in the cache.
    """
    words = len(total) if total.is_cuda else SUM_WORDS
    for part, addend in zip(total.split(words), product.split(words), strict=True):
        part += addend


def torch_softmax_gradient(logits: Tensor, targets: Tensor, words: int) -> tuple[Tensor, None]:
    """Overwrite the first `words` columns of logits with softmax - one-hot; 0 in rows not scored.

    Columns beyond are zero, and stay so.

    Returns (sum of nats, None). Other versions return factors (n, 1) by which the rows are still to
    be multiplied instead of None.
    """
    logits = logits[:, :words]
    wide_type = torch.promote_types(logits.dtype, torch.float32)
    losses = torch.empty(len(logits), dtype=wide_type, device=logits.device)
    part = CARD_PART_ROWS if logits.is_cuda else PART_ROWS
    for start in range(0, len(logits), part):
        rows = slice(start, start + part)
        is_scored = targets[rows] >= 0
        chosen = targets[rows].clamp(min=0)
        numbers = torch.arange(len(chosen), device=logits.device)
        wide = logits[rows].to(wide_type)
        log_total = wide.logsumexp(-1, keepdim=True)
        losses[rows] = (log_total[:, 0] - wide[numbers, chosen]) * is_scored
        wide.sub_(log_total).exp_()
        wide[numbers, chosen] -= 1.0
        wide.mul_(is_scored[:, None])
        if wide.dtype != logits.dtype:  # else it is these rows
            logits[rows] = wide
    return losses.sum(), None


def fused_softmax_gradient(logits: Tensor, targets: Tensor, words: int) -> tuple[Tensor, None]:
    """`torch_softmax_gradient` as one formula, for torch.compile: it becomes two or three kernels."""
    is_scored = (targets >= 0)[:, None]
    chosen = targets.clamp(min=0)[:, None]
    columns = torch.arange(logits.shape[1], device=logits.device)
    wide = torch.where(columns < words, logits.float(), float("-inf"))
    log_total = wide.logsumexp(-1, keepdim=True)
    losses = log_total - logits.gather(-1, chosen).float()
    gradient = (wide - log_total).exp() - (columns == chosen).float()
    logits.copy_(gradient * is_scored)
    return (losses * is_scored).sum(), None


@functools.cache
def compiled_softmax_gradient() -> SoftmaxGradient:
    """`fused_softmax_gradient`, compiled for each shape."""
    return torch.compile(fused_softmax_gradient, dynamic=False)


def native_softmax_gradient(logits: Tensor, targets: Tensor, words: int) -> tuple[Tensor, Tensor]:
    """`torch_softmax_gradient` of scored rows in bfloat16, the nats summed in float64.

    The factors are the probabilities of the likeliest words. Raises IndexError if a target is not a
    column: memory at the target is written to.
    """
    rows = len(logits)
    if rows and not 0 <= int(targets.min()) <= int(targets.max()) < words:
        raise IndexError(f"a target outside 0 to {words - 1}")
    scale = torch.empty(rows, 1)
    losses = torch.empty(rows, dtype=torch.float64)
    logits_ptr = checked_ptr(logits, BF16, rows, words)
    targets_ptr = checked_ptr(targets, torch.int64, rows)
    call("nats", logits_ptr, targets_ptr, scale.data_ptr(), losses.data_ptr(), rows, words)
    return losses.sum(), scale
