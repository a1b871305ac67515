"""Cross-entropy of some rows of logits, which become its gradient in place, without a second (N, V) tensor."""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from tinylm.kernels.train.binding import call, checked_ptr


def torch_softmax_gradient(logits: Tensor, targets: Tensor, part_rows: int) -> Tensor:
    """Overwrite logits (N, V) with softmax - one-hot, or 0 in rows not scored.  -> sum of nats

    targets (N,), negative where a row is not scored. part_rows: rows whose softmax is computed at a time.
    """
    wide_type = torch.promote_types(logits.dtype, torch.float32)
    losses = torch.empty(len(logits), dtype=wide_type, device=logits.device)
    for start in range(0, len(logits), part_rows):
        rows = slice(start, start + part_rows)
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
    return losses.sum()


def native_softmax_gradient(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """(sum of nats, factors (N, 1)): the overwritten logits times the factors are the gradient.

    Overwrites logits (N, V), in bfloat16 or float32, in C++. All rows must be scored. Nats are summed
    in float64. Raises IndexError if a target is not a column, since C++ would write outside the row.
    """
    rows, words = logits.shape
    if rows and not 0 <= int(targets.min()) <= int(targets.max()) < words:
        raise IndexError(f"expected targets from 0 to {words - 1}, got another one")
    factors = torch.empty(rows, 1, dtype=torch.float32, device="cpu")
    losses = torch.empty(rows, dtype=torch.float64, device="cpu")
    logits_ptr = checked_ptr(logits, logits.dtype, rows, words)
    targets_ptr = checked_ptr(targets, torch.int64, rows)
    factors_ptr = checked_ptr(factors, torch.float32, rows, 1)
    losses_ptr = checked_ptr(losses, torch.float64, rows)
    pointers = (logits_ptr, targets_ptr, factors_ptr, losses_ptr)
    call("softmax_gradient", logits.dtype, *pointers, rows, words)
    return losses.sum(), factors


def fused_softmax_gradient(logits: Tensor, targets: Tensor, words: int) -> Tensor:
    """`torch_softmax_gradient` as one formula, which torch.compile turns into two or three kernels.

    Columns from `words` on are padding, and become zero.
    """
    is_scored = (targets >= 0)[:, None]
    chosen = targets.clamp(min=0)[:, None]
    columns = torch.arange(logits.shape[1], device=logits.device)
    wide = torch.where(columns < words, logits.float(), float("-inf"))
    logsumexp = wide.logsumexp(-1, keepdim=True)
    losses = logsumexp - logits.gather(-1, chosen).float()
    gradient = (wide - logsumexp).exp() - (columns == chosen).float()
    logits.copy_(gradient * is_scored)
    return (losses * is_scored).sum()


@functools.cache
def compiled_softmax_gradient() -> Callable[[Tensor, Tensor, int], Tensor]:
    """`fused_softmax_gradient`, compiled for each shape."""
    return torch.compile(fused_softmax_gradient, dynamic=False)
