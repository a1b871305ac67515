"""Output layer and cross-entropy as one operation with hand-written gradients, in chunks of rows.

All logits of a batch (N, V) would be the largest tensor of a training step, and autograd would keep
several of them. Here only one chunk of rows exists at a time.
"""

from typing import Any

import torch
from torch import Tensor

from tinylm.kernels.train.binding import call, checked_ptr
from tinylm.model.loss import CHUNK_ROWS, output_token_loss

BF16 = torch.bfloat16
LOW_CHUNK_ROWS = CHUNK_ROWS // 2  # rows of logits alive at a time in bfloat16
PART_ROWS = 64  # rows whose softmax is computed at a time
PART_COLUMNS = 2048  # words whose weights' gradient is summed at a time: it stays in a core's cache


def output_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, native: bool = False
) -> Tensor:
    """cross_entropy(hidden weight^T + bias, targets), with hand-written gradients.

    hidden (N, D), weight (V, D), bias (V,) or None, targets (N,) -> scalar, sum of nats. Equal to
    the reference in exact arithmetic. Under autocast products are in its type. native: use C++ for
    what is not a product, in bfloat16 on a CPU.
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
    return OutputLoss.apply(hidden, weight, bias, targets, dtype, native and dtype == BF16)


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
        native: bool,
    ) -> Tensor:
        softmax_gradient = native_softmax_gradient if native else torch_softmax_gradient
        add_to = native_add_to if native else torch_add_to
        h = hidden.to(dtype)
        w = weight.to(dtype)
        rows = LOW_CHUNK_ROWS if dtype == BF16 else CHUNK_ROWS
        buffer = h.new_empty(min(rows, len(h)), len(w))
        total = hidden.new_zeros(())
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        grad_bias = None if bias is None else torch.zeros_like(bias)
        for start in range(0, len(h), rows):
            chunk = slice(start, min(start + rows, len(h)))
            logits = buffer[: chunk.stop - start]  # (n, V)
            if bias is not None and dtype == BF16:  # one pass and one rounding instead of two
                torch.addmm(bias.to(dtype), h[chunk], w.T, out=logits)
            else:
                torch.mm(h[chunk], w.T, out=logits)
                if bias is not None:
                    logits += bias
            nats, scale = softmax_gradient(logits, targets[chunk])
            total += nats
            torch.mul(torch.mm(logits, w), scale, out=grad_hidden[chunk])
            scaled = (h[chunk] * scale).to(dtype)
            if grad_bias is not None:
                grad_bias += (scale.to(dtype).T @ logits)[0] if native else logits.sum(0)
            if grad_weight is not None:
                for first in range(0, len(w), PART_COLUMNS):
                    words = slice(first, first + PART_COLUMNS)
                    add_to(grad_weight[words], logits[:, words].T @ scaled)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # In place: a second copy would be as large as the weights. Autograd refuses a second call.
        scaled = [None if grad is None else grad.mul_(grads[0]) for grad in ctx.saved_tensors]
        return *scaled, None, None, None


def torch_softmax_gradient(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Overwrite logits (n, V) with softmax - one-hot, zero in rows that are not scored.

    Returns (sum of nats, factors (n, 1) by which the rows are still to be multiplied).
    """
    wide_type = torch.promote_types(logits.dtype, torch.float32)
    losses = torch.empty(len(logits), dtype=wide_type, device=logits.device)
    for start in range(0, len(logits), PART_ROWS):
        rows = slice(start, start + PART_ROWS)
        is_scored = targets[rows] >= 0
        words = targets[rows].clamp(min=0)
        numbers = torch.arange(len(words), device=logits.device)
        wide = logits[rows].to(wide_type)
        log_total = wide.logsumexp(-1, keepdim=True)
        losses[rows] = (log_total[:, 0] - wide[numbers, words]) * is_scored
        wide.sub_(log_total).exp_()
        wide[numbers, words] -= 1.0
        wide.mul_(is_scored[:, None])
        if wide.dtype != logits.dtype:  # else it is these rows
            logits[rows] = wide
    return losses.sum(), losses.new_ones(len(logits), 1)


def torch_add_to(total: Tensor, part: Tensor) -> None:
    """total += part"""
    total += part


def native_softmax_gradient(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """`torch_softmax_gradient` of scored rows in bfloat16, the nats summed in float64.

    The factors are the probabilities of the likeliest words. Raises IndexError if a target is not a
    column: memory at the target is written to.
    """
    rows, words = logits.shape
    if rows and not 0 <= int(targets.min()) <= int(targets.max()) < words:
        raise IndexError(f"a target outside 0 to {words - 1}")
    scale = torch.empty(rows, 1)
    losses = torch.empty(rows, dtype=torch.float64)
    logits_ptr = checked_ptr(logits, BF16, rows, words)
    targets_ptr = checked_ptr(targets, torch.int64, rows)
    call("nats", logits_ptr, targets_ptr, scale.data_ptr(), losses.data_ptr(), rows, words)
    return losses.sum(), scale


def native_add_to(total: Tensor, part: Tensor) -> None:
    """total (float32) += part (bfloat16), in one pass."""
    total_ptr = checked_ptr(total, torch.float32, *part.shape)
    call("sum_up", total_ptr, checked_ptr(part, BF16, *part.shape), part.numel())
