"""Cross-entropy of the next token, fused with the output layer so that a step's logits never exist at once."""

from typing import Any

import torch
from torch import Tensor

CHUNK_ROWS = 512  # rows of logits alive at a time


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
    """Loss and gradients of all inputs in one pass over chunks of rows; backward only scales them."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor):
        low = torch.get_autocast_dtype(hidden.device.type)
        dtype = low if torch.is_autocast_enabled(hidden.device.type) else hidden.dtype
        h, w = hidden.to(dtype), weight.to(dtype)
        wide = hidden.dtype if hidden.dtype == torch.float64 else torch.float32
        total = torch.zeros((), dtype=wide, device=hidden.device)
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        grad_bias = None if bias is None else torch.zeros_like(bias)
        for start in range(0, len(h), CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            logits = (h[rows] @ w.T).to(wide)  # (n, V)
            if bias is not None:
                logits += bias
            total += _chunk_nats(logits, targets[rows], (targets[rows] >= 0).to(wide))
            grad_logits = logits.to(dtype)
            grad_hidden[rows] = grad_logits @ w
            if grad_weight is not None:
                grad_weight += grad_logits.T @ h[rows]
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


def output_loss(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """cross_entropy(hidden @ weight.T + bias, targets) in chunks of rows, gradients by hand.

    hidden (N, D), weight (V, D), bias (V,) or None, targets (N,) -> scalar, sum of nats. Equal to the plain path
    in exact arithmetic; the peak is one chunk of logits in place of all N rows and their gradient.
    """
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (hidden, weight, bias)):
        return _OutputLoss.apply(hidden, weight, bias, targets)
    return output_nats(hidden, weight, bias, targets).sum(dtype=torch.float64)


def output_nats(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """token_nats(hidden @ weight.T + bias, targets) in chunks of rows, for scoring.  -> (N,)"""
    chunks = zip(hidden.split(CHUNK_ROWS), targets.split(CHUNK_ROWS), strict=True)
    return torch.cat([token_nats(torch.nn.functional.linear(h, weight, bias), t) for h, t in chunks])
