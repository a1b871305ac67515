"""What each attention head contributes: the loss with this one head ablated."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from tinylm.evaluate.statistics import bootstrap_intervals
from tinylm.model.transformer import TinyLM

BATCH_ROWS = 8


@contextmanager
def switched_off(model: TinyLM, layer: int, head: int) -> Iterator[None]:
    """Inside, this head (both numbers from 0) adds nothing to its layer's output; its attention is still computed."""
    attention: Any = model.blocks[layer].attention
    columns, weight = attention.columns(head), attention.out.weight.data
    kept = weight[:, columns].clone()
    weight[:, columns] = 0.0
    try:
        yield
    finally:
        weight[:, columns] = kept


def ablate(
    model: TinyLM, rows: Sequence[np.ndarray], resamples: int, seed: int
) -> tuple[float, list[dict[str, Any]]]:
    """Nats per token of the whole model; for each head the same without it, the increase and its interval.

    rows: ids of each story (T,); all but its first token are scored. low, high: 95 % bootstrap interval over stories
    of the increase, each story with and without the head (paired). Raises ValueError if no token is scored.
    """
    batches = list(_batches(rows, model.embedding.device))
    if not batches:
        raise ValueError("ablation of no token; allowed: rows of at least two tokens")
    tokens = np.concatenate([(targets >= 0).sum(dim=1).cpu().numpy() for _, targets in batches])
    whole = _nats(model, batches)
    places = [
        (layer, head)
        for layer in range(model.settings.layers)
        for head in range(model.settings.heads)
    ]
    without = []
    for layer, head in places:
        with switched_off(model, layer, head):
            without.append(_nats(model, batches))
    more = np.stack(without, axis=1) - whole[:, None]  # (rows, heads)
    values = np.concatenate([more, tokens[:, None]], axis=1)
    lows, highs = bootstrap_intervals(
        values, lambda means: means[:, :-1] / means[:, -1:], resamples, seed
    )
    base = float(whole.sum() / tokens.sum())
    table = []
    for (layer, head), increase, low, high in zip(
        places, more.sum(axis=0) / tokens.sum(), lows, highs, strict=True
    ):
        found = {"nats_per_token": base + float(increase), "loss_increase": float(increase)}
        table.append(
            {"layer": layer + 1, "head": head + 1, **found, "low": float(low), "high": float(high)}
        )
    return base, table


def summarise_ablation(
    base: float, table: Sequence[dict[str, Any]], stories: int
) -> dict[str, Any]:
    """The head that costs most, and how many are idle: their interval contains 0."""
    return {
        "stories": stories,
        "nats_per_token": base,
        "largest": max(table, key=lambda row: row["loss_increase"]),
        "idle": sum(row["low"] <= 0 <= row["high"] for row in table),
    }


def _batches(
    rows: Sequence[np.ndarray], device: torch.device
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Inputs and targets (-1 after a row's end) of rows of similar length."""
    ordered = sorted((row for row in rows if len(row) > 1), key=len)
    for start in range(0, len(ordered), BATCH_ROWS):
        batch = ordered[start : start + BATCH_ROWS]
        inputs = torch.zeros(len(batch), len(batch[-1]) - 1, dtype=torch.int64)
        targets = torch.full_like(inputs, -1)
        for place, row in enumerate(batch):
            ids = torch.from_numpy(np.asarray(row, dtype=np.int64))
            inputs[place, : len(ids) - 1], targets[place, : len(ids) - 1] = ids[:-1], ids[1:]
        yield inputs.to(device), targets.to(device)


def _nats(model: TinyLM, batches: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> np.ndarray:
    """Nats of each row, (rows,) float64."""
    sums = [model.token_loss(inputs, targets).double().sum(dim=1) for inputs, targets in batches]
    return torch.cat(sums).cpu().numpy()
