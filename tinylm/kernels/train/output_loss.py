"""Output layer and cross-entropy as one operation with hand-written gradients, in chunks of rows.

The logits of a batch (N, V) would be the largest tensor of a training step, and autograd would keep
several of that size. Here only one chunk of rows exists at a time.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from tinylm.kernels.train.binding import DTYPES, call, checked_ptr
from tinylm.kernels.train.linear import fast_linear, uses_onednn
from tinylm.model.ops import CHUNK_ROWS, cross_entropy, output_token_loss

# Bytes of logits in memory at a time on a CPU. With fewer rows a product takes longer per row.
LOGITS_BYTES = 32 << 20
SUM_WORDS = 1024  # words whose weight gradients are added at a time, so that they stay in the cache
PART_ROWS = 64  # rows whose softmax is computed at a time
CUDA_PART_ROWS = 1024  # the same on CUDA, where each part launches several kernels
CUDA_CHUNK_ROWS = 16384  # large, since each chunk reads and writes the weights' whole gradient
# On CUDA every side of a matrix is padded to a multiple of this. A tensor core loads 16 bytes at a
# time: an H100 took 3.3 times as long for a product of width 300 as for one of width 304.
CUDA_ALIGNMENT = 8


# (logits, targets, words) -> (sum of nats, factors or None), see `torch_softmax_gradient`
SoftmaxGradient = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor | None]]


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
    device = hidden.device.type
    dtype = hidden.dtype
    if torch.is_autocast_enabled(device) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device)
    gradient: SoftmaxGradient = torch_softmax_gradient
    if device == "cuda":
        rows = CHUNK_ROWS * 4  # few, since plain torch needs several tensors of a part's size
        if compiled:
            gradient = compiled_softmax_gradient()
            rows = CUDA_CHUNK_ROWS
        return OutputLoss.apply(
            hidden, weight, bias, targets, dtype, gradient, rows, CUDA_ALIGNMENT
        )
    scored = (targets >= 0).nonzero()[:, 0]  # the other rows are left out of all products
    hidden = hidden.index_select(0, scored)
    targets = targets[scored]
    if not len(targets):
        return cross_entropy(F.linear(hidden, weight, bias), targets)
    if native and dtype in DTYPES:
        gradient = native_softmax_gradient
    rows = max(PART_ROWS, LOGITS_BYTES // (dtype.itemsize * len(weight)))
    return OutputLoss.apply(hidden, weight, bias, targets, dtype, gradient, rows, 1)


def aligned(tensor: Tensor, dtype: torch.dtype, alignment: int, dims: int = 2) -> Tensor:
    """Convert to `dtype`, and pad the last `dims` axes with zeros to multiples of `alignment`."""
    padding = []
    for size in tensor.shape[: -dims - 1 : -1]:
        padding += [0, -size % alignment]
    tensor = tensor.to(dtype)
    return F.pad(tensor, padding) if any(padding) else tensor


@dataclass
class Gradients:
    """Gradients of the inputs, added up over chunks; None for a weight or bias that needs none.

    hidden (N, D), weight (V, D), bias (V,).
    """

    hidden: Tensor
    weight: Tensor | None
    bias: Tensor | None

    def add(
        self, chunk: slice, grad_logits: Tensor, factors: Tensor | None, h: Tensor, w: Tensor
    ) -> None:
        """Add the gradients of one chunk of rows: h (n, D) and the gradient of its logits (n, V).

        factors (n, 1): the rows of grad_logits must still be multiplied by these, unless None.
        """
        width = self.hidden.shape[1]
        grad_rows = fast_linear(grad_logits, w.T)[:, :width]
        if factors is None:
            self.hidden[chunk] = grad_rows
        else:
            torch.mul(grad_rows, factors, out=self.hidden[chunk])
        if self.bias is not None:
            self.bias += self._column_sums(grad_logits, factors)[: len(self.bias)]
        if self.weight is not None:
            scaled = h if factors is None else (h * factors).to(h.dtype)
            self.weight = add_weight_gradient(self.weight, grad_logits, scaled, chunk.start == 0)

    @staticmethod
    def _column_sums(grad_logits: Tensor, factors: Tensor | None) -> Tensor:
        if factors is None:
            return grad_logits.sum(0)
        return (factors.to(grad_logits.dtype).T @ grad_logits)[0]


class OutputLoss(torch.autograd.Function):
    """The forward pass computes the loss and all gradients; backward only scales the gradients.

    With P = softmax(logits) and Y the one-hot targets, both zero in rows that are not scored:

    dL/dlogits = P - Y;  dhidden = (P - Y) W;  dW = (P - Y)^T hidden;  dbias = sum of rows of P - Y

    chunk_rows: rows of logits in memory at a time. alignment: D and V are padded with zeros to
    multiples of this.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        dtype: torch.dtype,
        softmax_gradient: SoftmaxGradient,
        chunk_rows: int,
        alignment: int,
    ) -> Tensor:
        h = aligned(hidden, dtype, alignment, dims=1)
        w = aligned(weight, dtype, alignment)
        b = None if bias is None else aligned(bias, dtype, alignment, dims=1)
        gradients = Gradients(
            hidden=torch.empty_like(hidden),
            weight=torch.empty_like(weight) if ctx.needs_input_grad[1] else None,
            bias=None if bias is None else torch.zeros_like(bias),
        )
        total = hidden.new_zeros(())
        for start in range(0, len(h), chunk_rows):
            chunk = slice(start, min(start + chunk_rows, len(h)))
            logits = fast_linear(h[chunk], w, b)
            nats, factors = softmax_gradient(logits, targets[chunk], len(weight))
            total += nats
            gradients.add(chunk, logits, factors, h[chunk], w)
            del logits  # frees them before the next chunk's are allocated
        grad_weight = gradients.weight
        if grad_weight is not None:
            grad_weight = grad_weight.contiguous()
        ctx.save_for_backward(gradients.hidden, grad_weight, gradients.bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # In place, to save a copy as large as the weights. Autograd allows no second call anyway.
        scaled = [None if grad is None else grad.mul_(grads[0]) for grad in ctx.saved_tensors]
        return *scaled, None, None, None, None, None


def add_weight_gradient(total: Tensor, grad_logits: Tensor, h: Tensor, is_first: bool) -> Tensor:
    """total + grad_logits^T h, in place where possible; without total for the first chunk."""
    if uses_onednn(h):  # transposed, since oneDNN would copy grad_logits to transpose it
        transposed = fast_linear(h.T, grad_logits.T)  # (D, V)
        return transposed.T if is_first else total.add_(transposed.T)
    if total.dtype == h.dtype and total.shape == (grad_logits.shape[1], h.shape[1]):
        return total.addmm_(grad_logits.T, h, beta=0.0 if is_first else 1.0)
    addend = (grad_logits.T @ h)[: len(total), : total.shape[1]]
    if is_first:
        return total.copy_(addend)
    # In parts: a CPU first converts the addend to total's type, and a part of it stays in the cache.
    words = len(total) if total.is_cuda else SUM_WORDS
    for part, addend_part in zip(total.split(words), addend.split(words), strict=True):
        part += addend_part
    return total


def torch_softmax_gradient(logits: Tensor, targets: Tensor, words: int) -> tuple[Tensor, None]:
    """Overwrite logits with softmax - one-hot, or 0 in rows not scored. Returns (sum of nats, None).

    Columns from `words` on are padding, which is zero and stays so. `native_softmax_gradient`
    returns factors (N, 1) instead of None, by which its rows must still be multiplied.
    """
    logits = logits[:, :words]
    wide_type = torch.promote_types(logits.dtype, torch.float32)
    losses = torch.empty(len(logits), dtype=wide_type, device=logits.device)
    part = CUDA_PART_ROWS if logits.is_cuda else PART_ROWS
    for start in range(0, len(logits), part):
        rows = slice(start, start + part)
        is_scored = targets[rows] >= 0
        chosen = targets[rows].clamp(min=0)
        row_numbers = torch.arange(len(chosen), device=logits.device)
        wide = logits[rows].to(wide_type)
        logsumexp = wide.logsumexp(-1, keepdim=True)
        losses[rows] = (logsumexp[:, 0] - wide[row_numbers, chosen]) * is_scored
        wide.sub_(logsumexp).exp_()
        wide[row_numbers, chosen] -= 1.0
        wide.mul_(is_scored[:, None])
        if wide.dtype != logits.dtype:  # otherwise `wide` shares memory with these rows
            logits[rows] = wide
    return losses.sum(), None


def fused_softmax_gradient(logits: Tensor, targets: Tensor, words: int) -> tuple[Tensor, None]:
    """`torch_softmax_gradient` as one formula, which torch.compile turns into two or three kernels."""
    is_scored = (targets >= 0)[:, None]
    chosen = targets.clamp(min=0)[:, None]
    columns = torch.arange(logits.shape[1], device=logits.device)
    wide = torch.where(columns < words, logits.float(), float("-inf"))
    logsumexp = wide.logsumexp(-1, keepdim=True)
    losses = logsumexp - logits.gather(-1, chosen).float()
    gradient = (wide - logsumexp).exp() - (columns == chosen).float()
    logits.copy_(gradient * is_scored)
    return (losses * is_scored).sum(), None


@functools.cache
def compiled_softmax_gradient() -> SoftmaxGradient:
    """`fused_softmax_gradient`, compiled for each shape."""
    return torch.compile(fused_softmax_gradient, dynamic=False)


def native_softmax_gradient(logits: Tensor, targets: Tensor, words: int) -> tuple[Tensor, Tensor]:
    """`torch_softmax_gradient` in C++, in bfloat16 or float32, for rows that are all scored.

    Nats are summed in float64. Raises IndexError if a target is not a column: C++ writes to memory
    at the target.
    """
    rows = len(logits)
    if rows and not 0 <= int(targets.min()) <= int(targets.max()) < words:
        raise IndexError(f"a target is outside 0 to {words - 1}")
    factors = torch.empty(rows, 1, dtype=torch.float32, device="cpu")
    losses = torch.empty(rows, dtype=torch.float64, device="cpu")
    logits_ptr = checked_ptr(logits, logits.dtype, rows, words)
    targets_ptr = checked_ptr(targets, torch.int64, rows)
    results = (
        checked_ptr(factors, torch.float32, rows, 1),
        checked_ptr(losses, torch.float64, rows),
    )
    call("softmax_gradient", logits.dtype, logits_ptr, targets_ptr, *results, rows, words)
    return losses.sum(), factors
