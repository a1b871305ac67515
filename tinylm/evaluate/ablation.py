"""What each attention head contributes: the loss with this one head ablated."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tinylm.evaluate.attention_maps import head_table
from tinylm.evaluate.intervals import bootstrap_intervals, ratios_to_last
from tinylm.evaluate.scoring import sequence_nats
from tinylm.evaluate.settings import Rows
from tinylm.model.transformer import TinyLM

BATCH_ROWS = 8


@contextmanager
def switched_off(model: TinyLM, layer: int, head: int) -> Iterator[None]:
    """Inside the context, this head (both numbers from 0) adds nothing to its layer's output.

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


def ablate(model: TinyLM, rows: Sequence[np.ndarray], resamples: int, seed: int) -> Rows:
    """For each head, by how many nats per token the loss rises without it.

    rows: ids of each story (T,), T > 1; all tokens but the first are scored. loss_increase comes
    with its 95 % bootstrap interval over stories, each scored with and without the head (paired).
    """
    rows = sorted(rows, key=len)
    tokens = np.array([len(row) - 1 for row in rows])
    whole = sequence_nats(model, rows, BATCH_ROWS)
    table = head_table(model.settings.layers, model.settings.heads)
    columns = []
    for layer, head in table.to_numpy() - 1:
        with switched_off(model, layer, head):
            nats = sequence_nats(model, rows, BATCH_ROWS)
        columns.append(nats - whole)
    increases = np.stack(columns, axis=1)  # (rows, heads)
    table["loss_increase"] = increases.sum(axis=0) / tokens.sum()
    values = np.column_stack([increases, tokens])
    table["low"], table["high"] = bootstrap_intervals(values, ratios_to_last, resamples, seed)
    return table.to_dict("records")
