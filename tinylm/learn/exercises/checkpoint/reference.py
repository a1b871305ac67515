import torch

from tinylm.model.recompute import recompute


def checkpointed(block, x):
    return recompute(lambda x, mask: block(x), x, torch.zeros(()))
