"""The learning rate as a pure function of the progress."""

import math


def learning_rate(progress: float, peak: float, warmup: float, schedule: str, final: float) -> float:
    """Learning rate at a share 0..1 of the token budget.

    Linear from 0 to `peak` over the first `warmup` (share), then constant, or cosine from `peak` down to
    `final` * peak at progress 1 (Loshchilov and Hutter 2017).
    """
    if progress < warmup:
        return peak * progress / warmup
    if schedule == "constant":
        return peak
    way = min(1.0, (progress - warmup) / (1.0 - warmup))
    return peak * (final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * way)))
