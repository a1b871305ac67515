"""The logit lens: what the model would predict if it stopped after each layer."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from tinylm.evaluate.settings import Rows
from tinylm.model.transformer import TinyLM


@torch.no_grad()
def logit_lens(model: TinyLM, rows: Sequence[np.ndarray]) -> Rows:
    """Nats per token of each layer's prediction (nostalgebraist 2020).

    The final norm and the output layer are applied to the first block's input (layer 0) and to
    each block's output. Per layer: nats per token of the rows' next tokens, and the share of them
    whose likeliest token is already the last layer's.
    """
    nats = np.zeros(model.settings.layers + 1)
    same = np.zeros(model.settings.layers + 1)
    tokens = 0
    for ids in rows:
        if len(ids) < 2:
            continue
        row = torch.as_tensor(ids.astype(np.int64), device=model.embedding.device)
        logits = []
        for state in _block_states(model, row[None, :-1]):
            hidden = model.final_norm(state[0])
            logits.append(model.logits(hidden).double())
        last = logits[-1].argmax(dim=-1)
        for layer, values in enumerate(logits):
            is_same = values.argmax(dim=-1) == last
            nats[layer] += F.cross_entropy(values, row[1:], reduction="sum").item()
            same[layer] += int(is_same.sum())
        tokens += len(ids) - 1
    if not tokens:
        return []
    table = pd.DataFrame({"nats_per_token": nats / tokens, "same_as_last": same / tokens})
    table.insert(0, "layer", table.index)
    return table.to_dict("records")


def _block_states(model: TinyLM, ids: Tensor) -> list[Tensor]:
    """The first block's input and each block's output, (B, T, D) each.  ids (B, T)"""
    states: list[Tensor] = []
    first, *_ = model.blocks
    hooks = [first.register_forward_pre_hook(lambda _, inputs: states.append(inputs[0]))]
    for block in model.blocks:
        hooks.append(block.register_forward_hook(lambda _, inputs, output: states.append(output)))
    try:
        model.hidden_states(ids)
    finally:
        for hook in hooks:
            hook.remove()
    return states
