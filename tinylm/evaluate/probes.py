"""Two probes of the layers: copying from an earlier occurrence, and each layer's own prediction."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from tinylm.base.seeding import derive_seed
from tinylm.evaluate.attention_maps import attention, head_table
from tinylm.evaluate.scoring import token_log_probs, with_interval
from tinylm.evaluate.settings import EvaluateSettings, Metrics, Rows
from tinylm.evaluate.statistics import mean
from tinylm.model.transformer import TinyLM

REPEATED = 20  # sequences of random tokens, each given twice in a row
LENGTH = 25  # tokens of each, at most


def induction(
    model: TinyLM, tokens: Sequence[int], start: Sequence[int], settings: EvaluateSettings
) -> Metrics | None:
    """Whether the model copies: random tokens, and the same a second time (Olsson et al. 2022).

    tokens: the ids to draw from, uniformly; start: the ids that begin a text.
    heads: for each head `score`, the weight that a token of the second half gives to the one after
    its first occurrence, mean over tokens.
    even: the same score of attention spread evenly over all visible tokens.
    nats_first, nats_second: per token of either half but its first; saved: their difference with
    its 95 % bootstrap interval over sequences.
    None if the context or the vocabulary is too small.
    """
    room = model.settings.context - len(start)
    length = min(LENGTH, room // 2)
    if length < 4 or len(tokens) < length:
        return None
    rng = np.random.default_rng(derive_seed(settings.seed, "induction"))
    # of the second half, those whose first occurrence has a successor in the first half
    queries = len(start) + length + np.arange(length - 1)
    successors = queries - length + 1
    scores = np.zeros((model.settings.layers, model.settings.heads))
    nats = []  # of each sequence: the first half, the second half
    for _ in range(REPEATED):
        drawn = rng.choice(tokens, size=length, replace=False).tolist()
        ids = np.array([*start, *drawn, *drawn])
        maps = attention(model, ids).maps  # (layers, H, T, T)
        scores += maps[:, :, queries, successors].mean(axis=-1)
        losses = -token_log_probs(model, ids, 1, "half")  # one window: nothing slides
        nats.append([losses[queries - length].mean(), losses[queries].mean()])
    heads = head_table(*scores.shape)
    heads["score"] = scores.ravel() / REPEATED
    first, second = np.mean(nats, axis=0).tolist()
    return {
        "sequences": REPEATED,
        "tokens": length,
        "nats_first": first,
        "nats_second": second,
        "saved": with_interval(-np.diff(nats), mean, settings, first - second),
        "even": float((1 / (queries + 1)).mean()),
        "heads": heads.to_dict("records"),
    }


@torch.no_grad()
def logit_lens(model: TinyLM, rows: Sequence[np.ndarray]) -> Rows:
    """What the model would predict if it stopped after each layer (nostalgebraist 2020).

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
