import torch
from torch import Tensor


def token_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """-ln p of each target; 0 where the target is negative, since that is padding.  -> (N,)"""
    log_p = logits - logits.logsumexp(-1, keepdim=True)
    picked = log_p.gather(-1, targets.clamp(min=0)[:, None])[:, 0]
    return -picked * (targets >= 0)


def batch_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean loss of a batch in nats per token.  (N, V), (N,) -> ()"""
    losses = token_losses(logits, targets)
    return losses.sum() / losses.numel()
