"""Cross-entropy of the next token, fused with the output layer so that a step's logits never exist at once."""

import torch
from torch import Tensor

from tinylm.kernels.training.output_layer import CHUNK_ROWS, LowOutputLoss, OutputLoss


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


def output_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, twice: bool = False, looped: bool = False
) -> Tensor:
    """cross_entropy(hidden @ weight.T + bias, targets) in chunks of rows, gradients by hand.

    hidden (N, D), weight (V, D), bias (V,) or None, targets (N,) -> scalar, sum of nats. Equal to the plain path
    in exact arithmetic; the peak is one chunk of logits in place of all N rows and their gradient. `twice` makes the
    chunk's buffer smaller and computes its logits a second time, to the same bits; under autocast it does nothing.
    looped: compiled loops do there what is not a product.
    """
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (hidden, weight, bias)):
        device = hidden.device.type
        if torch.is_autocast_enabled(device) and hidden.dtype != torch.float64:
            low, looped = torch.get_autocast_dtype(device), looped and device == "cpu"
            return LowOutputLoss.apply(hidden, weight, bias, targets, low, looped)
        return OutputLoss.apply(hidden, weight, bias, targets, twice)
    return output_nats(hidden, weight, bias, targets).sum(dtype=torch.float64)


def output_nats(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """token_nats(hidden @ weight.T + bias, targets) in chunks of rows, for scoring.  -> (N,)"""
    chunks = zip(hidden.split(CHUNK_ROWS), targets.split(CHUNK_ROWS), strict=True)
    return torch.cat([token_nats(torch.nn.functional.linear(h, weight, bias), t) for h, t in chunks])
