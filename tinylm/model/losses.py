"""Cross-entropy of the next token, fused with the output layer so that a step's logits never exist at once."""

import math
from typing import Any

import torch
from torch import Tensor

CHUNK_ROWS = 512  # rows of logits alive at a time
MOST_NATS = 87.0  # of a token in low precision: -ln of the smallest normal float32 or bfloat16


def token_nats(logits: Tensor, targets: Tensor) -> Tensor:
    """-ln softmax(logits)[target] in nats: the plain reference.  (N, V), (N,) -> (N,)

    A negative target is not scored: 0.  -ln p = logsumexp(z) - z[target], stable since logsumexp subtracts the maximum.
    """
    logits = logits.float() if logits.dtype != torch.float64 else logits
    nats = torch.logsumexp(logits, dim=-1) - logits.gather(-1, targets.clamp(min=0)[:, None])[:, 0]
    return nats * (targets >= 0)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Sum of `token_nats`.  (N, V), (N,) -> scalar"""
    return token_nats(logits, targets).sum()


def _chunk_nats(logits: Tensor, targets: Tensor, scored: Tensor) -> Tensor:
    """Nats of a chunk; overwrites the logits (n, V) with dL/dlogits = softmax - one-hot, zero where not scored."""
    targets = targets.clamp(min=0)
    chosen = logits.gather(-1, targets[:, None])
    log_total = torch.logsumexp(logits, dim=-1, keepdim=True)
    logits.sub_(log_total).exp_()
    logits.scatter_add_(-1, targets[:, None], torch.full_like(chosen, -1.0))
    logits.mul_(scored[:, None])
    return ((log_total - chosen)[:, 0] * scored).sum()


class _OutputLoss(torch.autograd.Function):
    """Loss and gradients of all inputs in one pass over chunks of rows; backward only scales them.

    The reference, in the precision of its inputs. `_LowOutputLoss` is the same in bf16.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor):
        total = hidden.new_zeros(())
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        grad_bias = None if bias is None else torch.zeros_like(bias)
        for start in range(0, len(hidden), CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            logits = hidden[rows] @ weight.T  # (n, V)
            if bias is not None:
                logits += bias
            total += _chunk_nats(logits, targets[rows], (targets[rows] >= 0).to(logits.dtype))
            grad_hidden[rows] = logits @ weight
            if grad_weight is not None:
                grad_weight += logits.T @ hidden[rows]
            if grad_bias is not None:
                grad_bias += logits.sum(0)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        grad = grads[0]
        by_weight = None if grad_weight is None else grad_weight * grad
        by_bias = None if grad_bias is None else grad_bias * grad
        return grad_hidden * grad, by_weight, by_bias, None


class _LowOutputLoss(torch.autograd.Function):
    """`_OutputLoss` in bf16: fewer passes over the logits, which are what this operation moves.

    The bias is two more columns of the weights (its bf16 value and what that leaves over) that meet ones in the
    hidden states, so that the products add it and sum its gradient. One buffer holds each chunk's logits and, in
    their place, softmax - one-hot. Rows that are not scored are left out. Sums over chunks are float32.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, low: torch.dtype):
        scored = targets >= 0
        ctx.rows = None if bool(scored.all()) else scored.nonzero()[:, 0]
        kept = hidden if ctx.rows is None else hidden[ctx.rows]
        targets = (targets if ctx.rows is None else targets[ctx.rows])[:, None]
        h, w = _joined(kept, weight, bias, low)
        grad_hidden = torch.empty(kept.shape, dtype=low, device=h.device)
        grad_weight = None
        buffer = torch.empty(min(CHUNK_ROWS, len(h)), len(w), dtype=low, device=h.device)
        total = torch.zeros((), dtype=torch.float64, device=h.device)
        for start in range(0, len(h), CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            logits = torch.mm(h[rows], w.T, out=buffer[: len(h[rows])])  # (n, V)
            total += _low_nats(logits, targets[rows])
            grad_hidden[rows] = torch.mm(logits, w)[:, : hidden.shape[1]]
            if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
                of_chunk = torch.mm(logits.T, h[rows])  # (V, columns)
                grad_weight = of_chunk.float() if grad_weight is None else grad_weight.add_(of_chunk)
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.shape, ctx.has_bias = hidden.shape, bias is not None
        return total.float()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        by_kept, joined = ctx.saved_tensors
        (grad,) = grads
        by_hidden = by_kept.float().mul_(grad)
        if ctx.rows is not None:
            by_hidden = by_hidden.new_zeros(ctx.shape).index_copy_(0, ctx.rows, by_hidden)
        by_weight = by_bias = None
        if joined is not None and ctx.needs_input_grad[1]:
            by_weight = joined[:, : ctx.shape[1]] * grad
        if joined is not None and ctx.needs_input_grad[2]:
            by_bias = joined[:, ctx.shape[1]] * grad
        return by_hidden, by_weight, by_bias, None, None


def _joined(hidden: Tensor, weight: Tensor, bias: Tensor | None, low: torch.dtype) -> tuple[Tensor, Tensor]:
    """Hidden states and weights in `low`, with the columns that stand for the bias.  -> (n, D'), (V, D')"""
    if bias is None:
        return hidden.to(low), weight.to(low)
    width = hidden.shape[1]
    columns = -(-(width + 2) // 8) * 8  # products are fastest on rows of whole 16 bytes
    h, w = hidden.new_zeros(len(hidden), columns, dtype=low), weight.new_zeros(len(weight), columns, dtype=low)
    h[:, :width], w[:, :width] = hidden, weight
    h[:, width : width + 2] = 1.0
    w[:, width] = bias
    w[:, width + 1] = bias - w[:, width]
    return h, w


def _low_nats(logits: Tensor, targets: Tensor) -> Tensor:
    """Sum of a chunk's nats; overwrites the low-precision logits (n, V) with softmax - one-hot. Targets (n, 1).

    The nats are those of the rounded probabilities, at most `MOST_NATS`; the gradient knows no such bound.
    """
    torch.softmax(logits, -1, out=logits)
    chosen = logits.gather(-1, targets).double().clamp_(min=math.exp(-MOST_NATS))
    logits.scatter_add_(-1, targets, torch.full_like(targets, -1.0, dtype=logits.dtype))
    return -chosen.log().sum()


def output_loss(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """cross_entropy(hidden @ weight.T + bias, targets) in chunks of rows, gradients by hand.

    hidden (N, D), weight (V, D), bias (V,) or None, targets (N,) -> scalar, sum of nats. Equal to the plain path
    in exact arithmetic; the peak is one chunk of logits in place of all N rows and their gradient.
    """
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (hidden, weight, bias)):
        device = hidden.device.type
        if torch.is_autocast_enabled(device) and hidden.dtype != torch.float64:
            return _LowOutputLoss.apply(hidden, weight, bias, targets, torch.get_autocast_dtype(device))
        return _OutputLoss.apply(hidden, weight, bias, targets)
    return output_nats(hidden, weight, bias, targets).sum(dtype=torch.float64)


def output_nats(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """token_nats(hidden @ weight.T + bias, targets) in chunks of rows, for scoring.  -> (N,)"""
    chunks = zip(hidden.split(CHUNK_ROWS), targets.split(CHUNK_ROWS), strict=True)
    return torch.cat([token_nats(torch.nn.functional.linear(h, weight, bias), t) for h, t in chunks])
