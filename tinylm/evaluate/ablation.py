"""What each attention head contributes: the loss with this one head ablated."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tinylm.evaluate.scoring import sequence_nats
from tinylm.evaluate.statistics import bootstrap_intervals, holm, normal_p
from tinylm.model.transformer import TinyLM

ALPHA = 0.05  # chance that any head is called needed if none is
BATCH_ROWS = 8


@contextmanager
def switched_off(model: TinyLM, layer: int, head: int) -> Iterator[None]:
    """Inside, this head (both numbers from 0) adds nothing to its layer's output.

    Its attention is still computed.
    """
    attention: Any = model.blocks[layer].attention
    columns = attention.columns(head)
    weight = attention.out.weight.data
    saved = weight[:, columns].clone()
    weight[:, columns] = 0.0
    try:
        yield
    finally:
        weight[:, columns] = saved


def ablate(
    model: TinyLM, rows: Sequence[np.ndarray], resamples: int, seed: int
) -> tuple[float, list[dict[str, Any]]]:
    """Nats per token of the whole model, and for each head the same without it.

    rows: ids of each story (T,); all tokens but the first are scored. loss_increase comes with its
    95 % bootstrap interval over stories, each with and without the head (paired).
    """
    rows = sorted((row for row in rows if len(row) > 1), key=len)
    tokens = np.array([len(row) - 1 for row in rows])
    whole = sequence_nats(model, rows, BATCH_ROWS)
    heads = list(np.ndindex(model.settings.layers, model.settings.heads))
    without = []
    for layer, head in heads:
        with switched_off(model, layer, head):
            without.append(sequence_nats(model, rows, BATCH_ROWS))
    increase = np.stack(without, axis=1) - whole[:, None]  # (rows, heads)
    values = np.concatenate([increase, tokens[:, None]], axis=1)
    lows, highs = bootstrap_intervals(values, _per_token, resamples, seed)
    increases = increase.sum(axis=0) / tokens.sum()
    base = float(whole.sum() / tokens.sum())
    table = []
    for index, (layer, head) in enumerate(heads):
        row = {
            "layer": layer + 1,
            "head": head + 1,
            "nats_per_token": base + float(increases[index]),
            "loss_increase": float(increases[index]),
            "low": float(lows[index]),
            "high": float(highs[index]),
        }
        table.append(row)
    return base, table


def _per_token(means: np.ndarray) -> np.ndarray:
    """(R, heads + 1), the last column being tokens -> (R, heads)"""
    return means[:, :-1] / means[:, -1:]


def summarise_ablation(
    base: float, table: Sequence[dict[str, Any]], stories: int
) -> dict[str, Any]:
    """The head whose loss costs most, and how many heads are idle.

    Idle: the loss without the head does not differ at `ALPHA`, after Holm's correction for all
    heads.
    """
    p_values = [normal_p(row["loss_increase"], row["low"], row["high"]) for row in table]
    return {
        "stories": stories,
        "nats_per_token": base,
        "largest": max(table, key=lambda row: row["loss_increase"]),
        "idle": sum(p > ALPHA for p in holm(p_values)),
    }
