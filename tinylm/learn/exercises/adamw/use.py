import torch

from tinylm.learn.use import train


def run(updates):
    return train(updates, {"train": {"optimizer": "adamw"}})


def replacements(student):
    @torch.no_grad()
    def apply_update(optimizer, lr, number, weight_decay, parameters, grads, first, second):
        for p, g, m, v in zip(parameters, grads, first, second, strict=True):
            new = student.adamw(
                p, g, m, v, number, lr, *optimizer.betas, optimizer.eps, weight_decay
            )
            for old, value in zip((p, m, v), new, strict=True):
                old.copy_(value)

    return {"tinylm.train.optimizers.Adam._apply_update": apply_update}
