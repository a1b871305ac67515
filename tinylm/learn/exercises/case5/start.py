import math


def learning_rate(tokens: float, budget: float, peak: float, warmup: float, final: float) -> float:
    """The learning rate after so many tokens.

    Linear from 0 to `peak` over the first `warmup` (a share of the budget), then a cosine from peak
    down to final * peak at the end.
    """
    progress = tokens / budget
    if tokens < warmup:
        return peak * progress / warmup
    falling = (progress - warmup) / (1 - warmup)
    return peak * (final + (1 - final) * 0.5 * (1 + math.cos(math.pi * max(falling, 0.0))))
