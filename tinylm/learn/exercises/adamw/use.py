import torch

from tinylm.learn.use import train


def run(updates):
    return train(updates, {"train": {"optimizer": "adamw"}})


def replacements(student):
    @torch.no_grad()
    def apply_update(optimizer, lr, number, parameters, grads, first, second):
        settings = (lr, *optimizer.betas, optimizer.eps, optimizer.weight_decay)
        for p, g, m, v in zip(parameters, grads, first, second, strict=True):
            new = student.adamw(p, g, m, v, number, *settings)
            for old, value in zip((p, m, v), new, strict=True):
                old.copy_(value)

    return {"tinylm.train.optimizers.Adam._apply_update": apply_update}
