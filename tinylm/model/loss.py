"""Cross-entropy of the next token."""

import torch
from torch import Tensor
from torch.nn import functional as F

CHUNK_ROWS = 512  # rows of logits alive at a time


def token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """-ln softmax(logits)[target] in nats.  (N, V), (N,) -> (N,)

    A negative target is not scored: 0. -ln p = logsumexp(z) - z[target] is stable, since logsumexp
    subtracts the maximum.
    """
    logits = logits.float() if logits.dtype != torch.float64 else logits
    loss = torch.logsumexp(logits, dim=-1) - logits.gather(-1, targets.clamp(min=0)[:, None])[:, 0]
    return loss * (targets >= 0)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Sum of `token_loss`.  (N, V), (N,) -> scalar"""
    return token_loss(logits, targets).sum()


def output_token_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
) -> Tensor:
    """token_loss(hidden weight^T + bias, targets) in chunks of rows.  -> (N,)

    All logits never exist at once.
    """
    chunks = zip(hidden.split(CHUNK_ROWS), targets.split(CHUNK_ROWS), strict=True)
    return torch.cat([token_loss(F.linear(rows, weight, bias), chosen) for rows, chosen in chunks])
