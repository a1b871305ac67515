"""Output layer and cross-entropy as one operation with hand-written gradients, in chunks of rows.

All logits of a batch (N, V) would be the largest tensor of a training step. Autograd would keep
several of that size. Here only one chunk of rows exists at a time.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tinylm.kernels.train.binding import DTYPES, call, checked_ptr
from tinylm.kernels.train.linear import product, uses_onednn
from tinylm.model.ops import CHUNK_ROWS, cross_entropy, output_token_loss

# Bytes of logits alive at a time on a CPU: a product of fewer rows takes longer per row.
LOGITS_BYTES = 32 << 20
SUM_WORDS = 1024  # words whose gradients are added at a time
PART_ROWS = 64  # rows whose softmax is computed at a time
CARD_PART_ROWS = 1024  # the same on CUDA, where a part is several kernels
CARD_CHUNK_ROWS = 16384  # on CUDA: the weights' gradient is added to once per chunk
# On CUDA every side of a matrix is a multiple of this: a tensor core loads 16 bytes at a time, and
# an H100 took 3.3 times as long for a product of width 300 as for one of width 304.
CARD_ALIGNMENT = 8


# (logits, targets, words) -> (nats, factors or None), see `torch_softmax_gradient`
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
    gradient: SoftmaxGradient = torch_softmax_gradient
    if device == "cuda":
        rows = CHUNK_ROWS * 4  # what is not compiled keeps several tensors of a part's size
        if compiled:
            gradient = compiled_softmax_gradient()
            rows = CARD_CHUNK_ROWS
        return OutputLoss.apply(
            hidden, weight, bias, targets, dtype, gradient, rows, CARD_ALIGNMENT
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
    """The tensor in that type, its last `dims` axes padded with zeros to multiples of `alignment`."""
    padding = []
    for size in tensor.shape[: -dims - 1 : -1]:
        padding += [0, -size % alignment]
    tensor = tensor.to(dtype)
    return F.pad(tensor, padding) if any(padding) else tensor


@dataclass
class Gradients:
    """Gradients of the inputs, added up over chunks; weight and bias may be None.

    hidden (N, D), weight (V, D), bias (V,).
    """

    hidden: Tensor
    weight: Tensor | None
    bias: Tensor | None

    def add(
        self, chunk: slice, grad_logits: Tensor, factors: Tensor | None, h: Tensor, w: Tensor
    ) -> None:
        """Add the gradients of one chunk of rows: h (n, D) and the gradient of its logits (n, V).

        factors: (n, 1), by which the rows of grad_logits are still to be multiplied.
        """
        width = self.hidden.shape[1]
        grad_rows = product(grad_logits, w.T)[:, :width]
        if factors is None:
            self.hidden[chunk] = grad_rows
        else:
            torch.mul(grad_rows, factors, out=self.hidden[chunk])
        if self.bias is not None:
            self.bias += self._column_sums(grad_logits, factors)[: len(self.bias)]
        if self.weight is not None:
            scaled = h if factors is None else (h * factors).to(h.dtype)
            if uses_onednn(h):  # the other way round: it would copy the gradient to transpose it
                transposed = product(scaled.T, grad_logits.T)  # (D, V)
                self.weight = transposed.T if chunk.start == 0 else self.weight.add_(transposed.T)
                return
            if self.weight.dtype == h.dtype and self.weight.shape == w.shape:
                self.weight.addmm_(grad_logits.T, scaled, beta=0.0 if chunk.start == 0 else 1.0)
                return
            grad_weight = (grad_logits.T @ scaled)[: len(self.weight), :width]
            if chunk.start == 0:
                self.weight.copy_(grad_weight)
            else:
                add_in_parts(self.weight, grad_weight)

    @staticmethod
    def _column_sums(grad_logits: Tensor, factors: Tensor | None) -> Tensor:
        if factors is None:
            return grad_logits.sum(0)
        return (factors.to(grad_logits.dtype).T @ grad_logits)[0]


class OutputLoss(torch.autograd.Function):
    """Loss and gradients of all inputs in one pass over chunks of rows; backward only scales them.

    With P = softmax(logits) and Y one-hot targets, rows that are not scored being zero:

    dL/dlogits = P - Y;  dhidden = (P - Y) W;  dW = (P - Y)^T hidden;  dbias = sum of rows of P - Y

    chunk_rows: rows of logits alive at a time. alignment: width and words are filled up with zeros
    to a multiple of this.
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
        low_bias = None if bias is None else aligned(bias, dtype, alignment, dims=1)
        gradients = Gradients(
            hidden=torch.empty_like(hidden),
            weight=torch.empty_like(weight) if ctx.needs_input_grad[1] else None,
            bias=None if bias is None else torch.zeros_like(bias),
        )
        total = hidden.new_zeros(())
        for start in range(0, len(h), chunk_rows):
            chunk = slice(start, min(start + chunk_rows, len(h)))
            logits = product(h[chunk], w, low_bias)
            nats, factors = softmax_gradient(logits, targets[chunk], len(weight))
            total += nats
            gradients.add(chunk, logits, factors, h[chunk], w)
            del logits  # before those of the next chunk exist
        grad_weight = gradients.weight
        if grad_weight is not None:
            grad_weight = grad_weight.contiguous()
        ctx.save_for_backward(gradients.hidden, grad_weight, gradients.bias)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # In place: a second copy would be as large as the weights. Autograd refuses a second call.
        scaled = [None if grad is None else grad.mul_(grads[0]) for grad in ctx.saved_tensors]
        return *scaled, None, None, None, None, None


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

    Returns (sum of nats, None), where `native_softmax_gradient` returns factors instead of None.
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
    """`torch_softmax_gradient` of scored rows in bfloat16 or float32, the nats summed in float64.

    The factors are the probabilities of the likeliest words. Raises IndexError if a target is not a
    column: memory at the target is written to.
    """
    rows = len(logits)
    if rows and not 0 <= int(targets.min()) <= int(targets.max()) < words:
        raise IndexError(f"a target is outside 0 to {words - 1}")
    scale = torch.empty(rows, 1)
    losses = torch.empty(rows, dtype=torch.float64)
    logits_ptr = checked_ptr(logits, logits.dtype, rows, words)
    targets_ptr = checked_ptr(targets, torch.int64, rows)
    results = (scale.data_ptr(), losses.data_ptr())
    call("softmax_gradient", logits.dtype, logits_ptr, targets_ptr, *results, rows, words)
    return losses.sum(), scale
