from torch import Tensor

from tinylm.model.ops import token_loss


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean of -ln softmax(logits)[target] over the targets >= 0.  (N, V), (N,) -> ()"""
    return token_loss(logits, targets).sum() / (targets >= 0).sum().clamp(min=1)
