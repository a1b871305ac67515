"""What a run measured: its metrics, and its tables (step, tokens, series, value) for plots."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tinylm.base.files import write_csv
from tinylm.train.validation import Validation, best_validation, capped_perplexity
from tinylm.vocab.batches import TrainBatches

LAST = 20  # the final train loss is the mean over this many updates
MEAN_OF = 10  # updates per point of the train curve: the losses of single batches are too noisy


@dataclass
class Curves:
    """What was measured during a run.

    One entry per update in tokens (so far), train (nats per token of its batch), rate and
    grad_norm. held_out has (update, tokens, nats per token) of each validation.
    """

    tokens: list[int] = field(default_factory=list)
    train: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)
    grad_norm: list[float] = field(default_factory=list)
    held_out: list[Validation] = field(default_factory=list)

    def add(self, tokens: int, loss: float, rate: float, grad_norm: float) -> None:
        """Add one update's metrics."""
        self.tokens.append(tokens)
        self.train.append(loss)
        self.rate.append(rate)
        self.grad_norm.append(grad_norm)


@dataclass
class TrainResult:
    """The outcome of `train`; the model holds the weights to save.

    kept_best: the weights of the best held-out loss were restored. train_s: seconds of updates
    alone, without validation.
    """

    curves: Curves
    stopped_early: bool
    kept_best: bool
    train_s: float

    @property
    def tokens(self) -> int:
        """Scored tokens of all updates so far."""
        return self.curves.tokens[-1] if self.curves.tokens else 0

    def timing(self) -> dict[str, float]:
        """Seconds of all updates and their tokens per second, rounded."""
        return {
            "train_s": round(self.train_s, 3),
            "tokens_per_s": round(self.tokens / max(self.train_s, 1e-9), 1),
        }


Rows = list[tuple[int, int, str, float]]  # step, tokens, series, value


def _thinned(curves: Curves, values: list[float], series: str, mean_of: int = MEAN_OF) -> Rows:
    """One row for every `MEAN_OF` updates: the mean of the last `mean_of` values."""
    rows = []
    for end in range(MEAN_OF, len(values) + 1, MEAN_OF):
        mean = sum(values[end - mean_of : end]) / mean_of
        rows.append((end, curves.tokens[end - 1], series, mean))
    return rows


def write_curves(folder: str | Path, curves: Curves) -> None:
    """Write loss.csv, perplexity.csv, learning_rate.csv and grad_norm.csv.

    Loss in nats per token, with the series train and held-out. A point of the train series is the
    mean over the last `MEAN_OF` updates, of losses before each update.
    """
    loss = _thinned(curves, curves.train, "train")
    loss += [(step, tokens, "held-out", nats) for step, tokens, nats in curves.held_out]
    tables = {
        "loss": loss,
        "perplexity": [(*row[:3], capped_perplexity(row[3])) for row in loss],
        "learning_rate": _thinned(curves, curves.rate, "learning rate", mean_of=1),
        "grad_norm": _thinned(curves, curves.grad_norm, "gradient norm"),
    }
    for name, rows in tables.items():
        write_csv(Path(folder) / f"{name}.csv", ("step", "tokens", "series", "value"), rows)


def epoch_metrics(curves: Curves, tokens_per_epoch: int) -> list[dict[str, Any]]:
    """For each whole epoch: mean train loss of its updates, held-out loss and perplexity at its end.

    Losses in nats per token. An update that spans two epochs counts for the first.
    """
    held_out = {update: loss for update, _, loss in curves.held_out}
    epochs: list[dict[str, Any]] = []
    losses = []
    before = 0  # whole epochs
    results = zip(curves.tokens, curves.train, strict=True)
    for update, (tokens, loss) in enumerate(results, start=1):
        losses.append(loss)
        epoch = tokens // tokens_per_epoch
        if epoch > before:
            row = {"epoch": epoch, "update": update, "train_loss": sum(losses) / len(losses)}
            row["held_out_loss"] = held_out[update]
            row["held_out_perplexity"] = capped_perplexity(held_out[update])
            epochs.append(row)
            losses = []
            before = epoch
    return epochs


def run_metrics(result: TrainResult, batches: TrainBatches) -> dict[str, Any]:
    """The metrics of a run for data/figures/train.json; losses in nats per token.

    held_out_loss, held_out_perplexity, saved_tokens and saved_epochs are those of the saved weights;
    the last two are left out without early stopping. by_epoch is left out if the run has no whole
    epoch (see `epoch_metrics`).
    """
    epochs = epoch_metrics(result.curves, batches.tokens_per_epoch)
    tail = result.curves.train[-LAST:]
    last = result.curves.held_out[-1][2]
    best_update, best_tokens, best = best_validation(result.curves.held_out)
    saved = best if result.kept_best else last
    metrics: dict[str, Any] = {
        "updates": len(result.curves.tokens),
        "tokens": result.tokens,
        "epochs": result.tokens / batches.tokens_per_epoch,
        "train_loss": sum(tail) / len(tail) if tail else None,
        "held_out_loss_last": last,
        "held_out_loss_best": best,
        "best_update": best_update,
        "held_out_loss": saved,
        "held_out_perplexity": capped_perplexity(saved),
        "stopped_early": result.stopped_early,
    }
    if result.kept_best:
        metrics["saved_tokens"] = best_tokens
        metrics["saved_epochs"] = best_tokens / batches.tokens_per_epoch
    if epochs:
        metrics["by_epoch"] = epochs
    return metrics
