"""Two probes of the layers: copying from an earlier occurrence, and each layer's own prediction."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tinylm.base.seeding import derive_seed
from tinylm.evaluate.attention_maps import attention
from tinylm.evaluate.statistics import bootstrap_interval
from tinylm.model.transformer import TinyLM

REPEATED = 20  # sequences of random tokens, each given twice in a row
LENGTH = 25  # tokens of each, at most


def induction(
    model: TinyLM, tokens: Sequence[int], start: Sequence[int], resamples: int, seed: int
) -> dict[str, Any] | None:
    """Whether the model copies: random tokens, and the same a second time (Olsson et al. 2022).

    tokens: the ids to draw from, uniformly; start: the ids that begin a text.
    heads: for each head `score`, the weight that a token of the second half gives to the one after
    its first occurrence, mean over tokens.
    even: the same score of attention spread evenly over all visible tokens.
    nats_first, nats_second: per token of either half but its first; saved: their difference with
    its 95 % bootstrap interval over sequences.
    None if the context or the vocabulary is too small.
    """
    length = min(LENGTH, (model.settings.context - len(start)) // 2)
    if length < 4 or len(tokens) < length:
        return None
    rng = np.random.default_rng(derive_seed(seed, "induction"))
    # of the second half, those whose first occurrence has a successor in the first half
    queries = len(start) + length + np.arange(length - 1)
    successors = queries - length + 1
    scores = np.zeros((model.settings.layers, model.settings.heads))
    even = 0.0
    nats = []
    for _ in range(REPEATED):
        drawn = rng.choice(np.asarray(tokens), size=length, replace=False)
        ids = np.concatenate([np.asarray(start, dtype=np.int64), drawn, drawn])
        maps = attention(model, ids).maps  # (layers, H, T, T)
        scores += maps[:, :, queries, successors].mean(axis=-1)
        even += float((1 / (queries + 1)).mean())
        losses = _losses(model, ids)
        first_half = losses[queries - length].mean()
        second_half = losses[queries].mean()
        nats.append((first_half, second_half))
    heads = []
    for (layer, head), total in np.ndenumerate(scores):
        score = float(total) / REPEATED
        heads.append({"layer": layer + 1, "head": head + 1, "score": score})
    halves = np.array(nats)
    first, second = halves.mean(axis=0).tolist()
    low, high = bootstrap_interval(halves, _first_less_second, resamples, seed)
    return {
        "sequences": REPEATED,
        "tokens": length,
        "nats_first": first,
        "nats_second": second,
        "saved": {"value": first - second, "low": low, "high": high},
        "even": even / REPEATED,
        "heads": heads,
    }


def _first_less_second(means: np.ndarray) -> np.ndarray:
    return means[:, 0] - means[:, 1]


@torch.no_grad()
def _losses(model: TinyLM, ids: np.ndarray) -> np.ndarray:
    """Nats of ids[1:], each given those before it.  (T,) -> (T - 1,)"""
    row = torch.as_tensor(ids, device=model.embedding.device)
    logits = model(row[None, :-1])[0].double()
    return F.cross_entropy(logits, row[1:], reduction="none").cpu().numpy()


@torch.no_grad()
def logit_lens(model: TinyLM, rows: Sequence[np.ndarray]) -> list[dict[str, Any]]:
    """What the model would predict if it stopped after each layer (nostalgebraist 2020).

    The final norm and the output layer are applied to the first block's input (layer 0) and to
    each block's output. Per layer: nats per token of the rows' next tokens, and the share of them
    whose likeliest token is already the last layer's.
    """
    layers = model.settings.layers + 1
    nats = np.zeros(layers)
    same = np.zeros(layers)
    tokens = 0
    for ids in rows:
        if len(ids) < 2:
            continue
        row = torch.as_tensor(ids.astype(np.int64), device=model.embedding.device)
        states = _block_states(model, row[None, :-1])
        logits = []
        for state in states:
            hidden = model.final_norm(state[0])
            logits.append(model.logits(hidden).double())
        last = logits[-1].argmax(dim=-1)
        for layer, values in enumerate(logits):
            is_same = values.argmax(dim=-1) == last
            nats[layer] += float(F.cross_entropy(values, row[1:], reduction="sum"))
            same[layer] += int(is_same.sum())
        tokens += len(ids) - 1
    if not tokens:
        return []
    result = []
    for layer in range(layers):
        row_nats = float(nats[layer] / tokens)
        row_same = float(same[layer] / tokens)
        result.append({"layer": layer, "nats_per_token": row_nats, "same_as_last": row_same})
    return result


def _block_states(model: TinyLM, ids: Tensor) -> list[Tensor]:
    """The first block's input and each block's output, (B, T, D) each.  ids (B, T)"""
    states: list[Tensor] = []

    def run_blocks(blocks: Sequence[nn.Module], x: Tensor, mask: Tensor) -> Tensor:
        states.append(x)
        for block in blocks:
            x = block(x, mask, None, [])
            states.append(x)
        return x

    usual = model.run_blocks
    model.run_blocks = run_blocks
    try:
        model.hidden_states(ids)
    finally:
        model.run_blocks = usual
    return states
