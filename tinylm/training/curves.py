"""The curves of a run as long tables (step, tokens, series, value): what DVC plots and the report draw."""

import bisect
import csv
import math
from pathlib import Path
from typing import Any

from tinylm.base.files import atomic_write, write_json
from tinylm.text.batches import TrainBatches
from tinylm.training.run_state import Curves, TrainResult

LAST = 20  # updates that the train loss at the end is a mean of
MEAN_OF = 10  # updates that one point of the train curve averages: single batches differ too much to be read


def _write(path: Path, rows: list[tuple[int, int, str, float]]) -> None:
    with atomic_write(path) as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(("step", "tokens", "series", "value"))
        writer.writerows((step, tokens, series, f"{value:.6g}") for step, tokens, series, value in rows)


def write_curves(folder: str | Path, curves: Curves) -> None:
    """Write loss.csv and perplexity.csv (series train and held-out), learning_rate.csv and grad_norm.csv.

    Loss in nats a token; a train point is the mean of the last `MEAN_OF` updates, before each of which the weights
    were those of the update before.
    """
    loss: list[tuple[int, int, str, float]] = []
    rate: list[tuple[int, int, str, float]] = []
    norm: list[tuple[int, int, str, float]] = []
    for end in range(MEAN_OF, len(curves.updates) + 1, MEAN_OF):
        step, tokens = curves.updates[end - 1], curves.tokens[end - 1]
        loss.append((step, tokens, "train", sum(curves.train[end - MEAN_OF : end]) / MEAN_OF))
        rate.append((step, tokens, "learning rate", curves.rate[end - 1]))
        norm.append((step, tokens, "gradient norm", sum(curves.grad_norm[end - MEAN_OF : end]) / MEAN_OF))
    loss += [(step, tokens, "held-out", value) for step, tokens, value in curves.held_out]
    perplexity = [(step, tokens, series, math.exp(min(value, 700.0))) for step, tokens, series, value in loss]
    for name, rows in (("loss", loss), ("perplexity", perplexity), ("learning_rate", rate), ("grad_norm", norm)):
        _write(Path(folder) / f"{name}.csv", rows)


def write_samples(path: str | Path, curves: Curves) -> None:
    """Write what the model wrote on the way: a list of {update, tokens, text}."""
    write_json(path, [dict(zip(("update", "tokens", "text"), sample, strict=True)) for sample in curves.samples])


def epoch_figures(curves: Curves, tokens_per_epoch: int) -> list[dict[str, Any]]:
    """Of each whole epoch: mean train loss of its updates in nats a token, held-out loss and perplexity at its end.

    An update that two epochs share counts for the first of them.
    """
    measured = {update: loss for update, _, loss in curves.held_out}
    found, start, seen = [], 0, curves.tokens[-1] if curves.tokens else 0
    for epoch in range(1, seen // tokens_per_epoch + 1):
        end = bisect.bisect_left(curves.tokens, epoch * tokens_per_epoch) + 1
        inside = curves.train[start:end] or curves.train[end - 1 : end]  # an update may hold whole epochs
        loss = measured[curves.updates[end - 1]]
        found.append(
            {
                "epoch": epoch,
                "update": curves.updates[end - 1],
                "train_loss": sum(inside) / len(inside),
                "held_out_loss": loss,
                "held_out_perplexity": math.exp(min(loss, 700.0)),
            }
        )
        start = end
    return found


def run_figures(result: TrainResult, batches: TrainBatches) -> dict[str, Any]:
    """The figures of a run for metrics/train.json; losses in nats a token, held-out perplexity of the saved weights.

    by_epoch stands there where the run has a whole epoch (see `epoch_figures`).
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
        "held_out_perplexity": math.exp(min(saved, 700.0)),
        "stopped_early": result.stopped_early,
    } | ({"by_epoch": epochs} if epochs else {})
