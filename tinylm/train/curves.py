"""What a run measured: its tables (step, tokens, series, value) for DVC's plots and the report, and its metrics."""

import bisect
import csv
import dataclasses
from pathlib import Path
from typing import Any

from tinylm.base.files import atomic_write, write_json
from tinylm.train.split_loss import capped_perplexity
from tinylm.vocab.batches import TrainBatches

LAST = 20  # the final train loss is the mean over this many updates
MEAN_OF = 10  # updates per point of the train curve: the losses of single batches are too noisy


@dataclasses.dataclass
class Curves:
    """What was measured during a run: one entry per update (tokens, train, rate, grad_norm), validation or sample."""

    updates: list[int] = dataclasses.field(default_factory=list)
    tokens: list[int] = dataclasses.field(default_factory=list)
    train: list[float] = dataclasses.field(
        default_factory=list
    )  # nats per token of that update's batch
    rate: list[float] = dataclasses.field(default_factory=list)
    grad_norm: list[float] = dataclasses.field(default_factory=list)
    held_out: list[tuple[int, int, float]] = dataclasses.field(
        default_factory=list
    )  # update, tokens, nats per token
    samples: list[tuple[int, int, list[str]]] = dataclasses.field(
        default_factory=list
    )  # update, tokens, texts

    def add(self, update: int, tokens: int, loss: float, rate: float, grad_norm: float) -> None:
        """Enter the figures of one update."""
        self.updates.append(update)
        self.tokens.append(tokens)
        self.train.append(loss)
        self.rate.append(rate)
        self.grad_norm.append(grad_norm)

    def newest(self) -> dict[str, float]:
        """The figures of the last update."""
        series = {"train_loss": self.train, "learning_rate": self.rate, "grad_norm": self.grad_norm}
        return {name: values[-1] for name, values in series.items()} | {"tokens": self.tokens[-1]}


@dataclasses.dataclass
class TrainResult:
    """The outcome of `train`; the model holds the weights to save."""

    curves: Curves
    last_held_out: float
    best_held_out: float
    best_update: int
    stopped_early: bool
    kept_best: bool  # the weights of the best held-out loss were restored
    train_s: float  # updates only, without validation and samples
    earlier_s: (
        float  # part of the total that was spent in the processes that this run was resumed from
    )

    @property
    def tokens(self) -> int:
        """Scored tokens that all updates have seen."""
        return self.curves.tokens[-1] if self.curves.tokens else 0

    def timing(self) -> dict[str, float]:
        """Seconds of all updates and their tokens per second, rounded."""
        return {
            "train_s": round(self.train_s, 3),
            "tokens_per_s": round(self.tokens / max(self.train_s, 1e-9), 1),
        }


def _write(path: Path, rows: list[tuple[int, int, str, float]]) -> None:
    with atomic_write(path) as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(("step", "tokens", "series", "value"))
        writer.writerows(
            (step, tokens, series, f"{value:.6g}") for step, tokens, series, value in rows
        )


def write_curves(folder: str | Path, curves: Curves) -> None:
    """Write loss.csv and perplexity.csv (series train and held-out), learning_rate.csv and grad_norm.csv.

    Loss in nats per token; a train point is the mean over the last `MEAN_OF` updates, of losses before each update.
    """
    loss: list[tuple[int, int, str, float]] = []
    rate: list[tuple[int, int, str, float]] = []
    norm: list[tuple[int, int, str, float]] = []
    for end in range(MEAN_OF, len(curves.updates) + 1, MEAN_OF):
        step, tokens = curves.updates[end - 1], curves.tokens[end - 1]
        loss.append((step, tokens, "train", sum(curves.train[end - MEAN_OF : end]) / MEAN_OF))
        rate.append((step, tokens, "learning rate", curves.rate[end - 1]))
        norm.append(
            (step, tokens, "gradient norm", sum(curves.grad_norm[end - MEAN_OF : end]) / MEAN_OF)
        )
    loss += [(step, tokens, "held-out", value) for step, tokens, value in curves.held_out]
    perplexity = [
        (step, tokens, series, capped_perplexity(value)) for step, tokens, series, value in loss
    ]
    for name, rows in (
        ("loss", loss),
        ("perplexity", perplexity),
        ("learning_rate", rate),
        ("grad_norm", norm),
    ):
        _write(Path(folder) / f"{name}.csv", rows)


def write_samples(path: str | Path, curves: Curves, prompt: str) -> None:
    """Write the samples of the run: a list of {update, tokens, prompt, text, others}; each text begins with prompt."""
    rows = [
        {
            "update": update,
            "tokens": tokens,
            "prompt": prompt,
            "text": texts[0],
            "others": texts[1:],
        }
        for update, tokens, texts in curves.samples
    ]
    write_json(path, rows)


def epoch_figures(curves: Curves, tokens_per_epoch: int) -> list[dict[str, Any]]:
    """For each whole epoch: mean train loss of its updates in nats per token, held-out loss and perplexity at its end.

    An update that spans two epochs counts for the first.
    """
    measured = {update: loss for update, _, loss in curves.held_out}
    epochs, start, seen = [], 0, curves.tokens[-1] if curves.tokens else 0
    for epoch in range(1, seen // tokens_per_epoch + 1):
        end = bisect.bisect_left(curves.tokens, epoch * tokens_per_epoch) + 1
        inside = (
            curves.train[start:end] or curves.train[end - 1 : end]
        )  # one update may span whole epochs
        loss = measured[curves.updates[end - 1]]
        epochs.append(
            {
                "epoch": epoch,
                "update": curves.updates[end - 1],
                "train_loss": sum(inside) / len(inside),
                "held_out_loss": loss,
                "held_out_perplexity": capped_perplexity(loss),
            }
        )
        start = end
    return epochs


def run_figures(result: TrainResult, batches: TrainBatches) -> dict[str, Any]:
    """The figures of a run for metrics/train.json; losses in nats per token, held-out perplexity of the saved weights.

    by_epoch is left out if the run has no whole epoch (see `epoch_figures`).
    """
    epochs = epoch_figures(result.curves, batches.tokens_per_epoch)
    tail = result.curves.train[-LAST:]
    saved = result.best_held_out if result.kept_best else result.last_held_out
    return {
        "updates": len(result.curves.updates),
        "tokens": result.tokens,
        "epochs": result.tokens / batches.tokens_per_epoch,
        "train_loss": sum(tail) / len(tail) if tail else None,
        "held_out_loss_last": result.last_held_out,
        "held_out_loss_best": result.best_held_out,
        "best_update": result.best_update,
        "held_out_perplexity": capped_perplexity(saved),
        "stopped_early": result.stopped_early,
    } | ({"by_epoch": epochs} if epochs else {})
