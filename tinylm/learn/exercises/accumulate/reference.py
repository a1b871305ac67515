import torch

from tinylm.train.trainer import accumulate_gradients
from tinylm.vocab.batches import Batch


class _Model:
    def __init__(self, loss):
        self.loss = loss
        self.embedding = torch.zeros(1)


def accumulate(loss_sum, batches):
    scored = [Batch(inputs, targets, int((targets >= 0).sum())) for inputs, targets in batches]
    nats = accumulate_gradients(_Model(loss_sum), scored, "fp32")
    return float(nats) / sum(batch.tokens for batch in scored)
