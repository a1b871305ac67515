"""Cross-entropy of the next token."""

import torch
from torch import Tensor
from torch.nn import functional as F

CHUNK_ROWS = 512  # rows of logits alive at a time
ALIGNMENT = 8  # on CUDA, V is padded to a multiple of this: a tensor core loads 8 numbers at a time


def token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """-ln softmax(logits)[target] in nats.  (N, V), (N,) -> (N,)

    A negative target is not scored: 0. -ln p = logsumexp(z) - z[target] is stable, since logsumexp
    subtracts the maximum.
    """
    if logits.dtype != torch.float64:
        logits = logits.float()
    columns = targets.clamp(min=0)[:, None]
    chosen = logits.gather(-1, columns)[:, 0]
    loss = torch.logsumexp(logits, dim=-1) - chosen
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
    words = len(weight)
    rows = CHUNK_ROWS
    if weight.is_cuda:
        missing = -words % ALIGNMENT
        weight = F.pad(weight, (0, 0, 0, missing))
        bias = None if bias is None else F.pad(bias, (0, missing))
        rows *= 4
    losses = []
    chunks = zip(hidden.split(rows), targets.split(rows), strict=True)
    for chunk, chosen in chunks:
        logits = F.linear(chunk, weight, bias)[:, :words]
        losses.append(token_loss(logits, chosen))
    return torch.cat(losses)
