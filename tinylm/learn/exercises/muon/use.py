import torch

from tinylm.learn.use import train


def run(updates):
    return train(updates, {"train": {"optimizer": "muon"}})


def replacements(student):
    @torch.no_grad()
    def apply_update(optimizer, lr, tasks):
        for matrix, grad, momentum in tasks:
            new = student.muon(matrix, grad, momentum, lr, optimizer.beta, optimizer.weight_decay)
            for old, value in zip((matrix, momentum), new, strict=True):
                old.copy_(value)

    return {"tinylm.train.muon.Muon._apply_update": apply_update}
