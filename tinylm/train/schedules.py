"""What depends on a run's progress: learning rate, early stopping, epochs with checkpoints."""

import math

from tinylm.base.config import PARAMS_FILE, InputError


def learning_rate(
    progress: float, peak: float, warmup: float, schedule: str, final: float
) -> float:
    """Learning rate at a share 0..1 of the token budget.

    Linear from 0 to `peak` over the share `warmup`. Then constant, or a cosine down to
    `final` * peak at progress 1 (Loshchilov and Hutter 2017).
    """
    if progress < warmup:
        return peak * progress / warmup
    if schedule == "constant":
        return peak
    after_warmup = min(1.0, (progress - warmup) / (1.0 - warmup))
    return peak * (final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * after_warmup)))


def out_of_patience(
    held_out: list[tuple[int, int, float]], patience: int | None, validate_every: int
) -> bool:
    """Whether `patience` validations since the best one were no better; never if it is None.

    held_out: (update, tokens, loss) of each validation. Only those every `validate_every` updates
    count, not those at the end of an epoch.
    """
    if patience is None:
        return False
    best = best_validation(held_out)[0]
    worse = [update for update, _, _ in held_out if update > best and update % validate_every == 0]
    return len(worse) >= patience


def best_validation(held_out: list[tuple[int, int, float]]) -> tuple[int, int, float]:
    """(update, tokens, loss) of the lowest held-out loss, the first of equal ones."""
    return min(held_out, key=lambda validation: validation[2])


SHARES = (0.02, 0.05, 0.1, 0.25, 0.5)  # of a run: its checkpoints where no epochs are named


def checkpoint_tokens(
    epochs: tuple[float, ...] | None, tokens_per_epoch: int, end: int
) -> dict[float, int]:
    """The epochs whose weights are saved, each with the tokens after which it ends.

    epochs: None for `SHARES` of the run. Raises InputError if one is too small for a token or
    beyond the end.
    """
    if epochs is None:
        rounded = {float(f"{share * end / tokens_per_epoch:.3g}") for share in SHARES}
        epochs = tuple(epoch for epoch in rounded if round(epoch * tokens_per_epoch))
    tokens_of = {epoch: round(epoch * tokens_per_epoch) for epoch in sorted(epochs)}
    for epoch, tokens in tokens_of.items():
        if not 1 <= tokens <= end:
            raise InputError(
                f"{PARAMS_FILE}: train.keep_epochs holds {epoch:g}; allowed: at least one token, "
                f"at most {end / tokens_per_epoch:.6g}, where this run ends"
            )
    return tokens_of
