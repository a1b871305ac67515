"""Results of stage train: data/figures/train.json and data/times/train.json."""

import dataclasses

from tinylm.run.result_files import StageTimes


@dataclasses.dataclass(frozen=True)
class Epoch:
    """A whole epoch: losses in nats per token, the train loss as a mean over its updates."""

    epoch: int
    update: int
    train_loss: float | None
    held_out_loss: float | None
    held_out_perplexity: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trained:
    """The model and its training; losses in nats per token, None where they are not finite.

    seed, precision, compile: as in section train.
    *_flop_per_token: operations for a token of a full context, a multiplication and an addition
    counted as two. updates, tokens, epochs: done. train_loss: of the last updates.
    held_out_loss_last, held_out_loss_best: at the end, and the lowest, which was after best_update.
    held_out_loss, held_out_perplexity: of the saved weights. saved_tokens, saved_epochs: how far the
    training was at these; None without early stopping, which saves the last weights.
    """

    seed: int
    precision: str
    compile: str
    parameters: int
    parameters_trainable: int
    parameters_by_part: dict[str, int]
    forward_flop_per_token: int
    attention_flop_per_token: int
    training_flop_per_token: int
    weight_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    kv_cache_bytes_per_row: int
    updates: int
    tokens: int
    epochs: float
    train_loss: float | None
    held_out_loss_last: float | None
    held_out_loss_best: float | None
    best_update: int
    held_out_loss: float | None
    held_out_perplexity: float | None
    stopped_early: bool
    saved_tokens: int | None = None
    saved_epochs: float | None = None
    by_epoch: list[Epoch] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainTimes(StageTimes):
    """train_s: seconds of all updates. epoch_s: seconds that an epoch takes at this speed."""

    train_s: float
    tokens_per_s: float
    epoch_s: float
