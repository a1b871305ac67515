"""Two probes of the layers: copying from an earlier occurrence (induction), and what each layer would predict."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tinylm.base.seeding import derive_seed
from tinylm.evaluate.attention_maps import attention
from tinylm.evaluate.statistics import bootstrap_interval
from tinylm.model.transformer import TinyLM

REPEATED = 20  # sequences of random tokens, each given twice in a row
LENGTH = 25  # tokens of each, at most


def induction(
    model: TinyLM, tokens: Sequence[int], start: Sequence[int], resamples: int, seed: int
) -> dict[str, Any] | None:
    """Does the model find again what followed a token before? Random tokens, and the same a second time.

    tokens: the ids to draw from, uniformly; start: what a text begins with. For each head `score`, the weight that a
    token of the second half gives to the one after its first occurrence, mean over tokens (Olsson et al. 2022), and
    `even`, the same if it spread its weight evenly over what it sees. nats_first, nats_second: per token of either
    half but its first; saved: their difference with its 95 % bootstrap interval over sequences. None if the context
    or the vocabulary is too small for it.
    """
    length = min(LENGTH, (model.settings.context - len(start)) // 2)
    if length < 4 or len(tokens) < length:
        return None
    rng = np.random.default_rng(derive_seed(seed, "induction"))
    scores = np.zeros((model.settings.layers, model.settings.heads))
    nats, even = [], 0.0
    queries = (
        len(start) + length + np.arange(length - 1)
    )  # whose first occurrence has a successor in the first half
    for _ in range(REPEATED):
        drawn = rng.choice(np.asarray(tokens), size=length, replace=False)
        ids = np.concatenate([np.asarray(start, dtype=np.int64), drawn, drawn])
        maps = attention(model, ids).maps  # (layers, H, T, T)
        scores += maps[:, :, queries, queries - length + 1].mean(axis=-1)
        even += float((1 / (queries + 1)).mean())
        losses = _losses(model, ids)
        nats.append((losses[queries - length].mean(), losses[queries].mean()))
    heads = [
        {"layer": layer + 1, "head": head + 1, "score": float(value) / REPEATED}
        for (layer, head), value in np.ndenumerate(scores)
    ]
    halves = np.array(nats)
    first, second = halves.mean(axis=0).tolist()
    low, high = bootstrap_interval(halves, lambda means: means[:, 0] - means[:, 1], resamples, seed)
    saved = {"value": first - second, "low": low, "high": high}
    figures = {
        "sequences": REPEATED,
        "tokens": length,
        "nats_first": first,
        "nats_second": second,
        "saved": saved,
    }
    return figures | {"even": even / REPEATED, "heads": heads}


@torch.no_grad()
def _losses(model: TinyLM, ids: np.ndarray) -> np.ndarray:
    """Nats of ids[1:], each given those before it.  (T,) -> (T - 1,)"""
    row = torch.as_tensor(ids, device=model.embedding.device)
    return (
        F.cross_entropy(model(row[None, :-1])[0].double(), row[1:], reduction="none").cpu().numpy()
    )


@torch.no_grad()
def logit_lens(model: TinyLM, rows: Sequence[np.ndarray]) -> list[dict[str, Any]]:
    """What the model would predict if it stopped after each layer (the logit lens, nostalgebraist 2020).

    The final norm and the output layer are applied to what enters the first block (layer 0) and to what each block
    gives. Per layer: nats per token of the rows' next tokens, and the share of them whose likeliest token is already
    the last layer's.
    """
    layers = model.settings.layers + 1
    nats, same, tokens = np.zeros(layers), np.zeros(layers), 0
    for ids in rows:
        if len(ids) < 2:
            continue
        row = torch.as_tensor(np.asarray(ids, dtype=np.int64), device=model.embedding.device)
        with _streams(model) as streams:
            model.hidden_states(row[None, :-1], attention_weights_out=[])
        logits = [model.logits(model.final_norm(stream[0])).double() for stream in streams]
        last = logits[-1].argmax(dim=-1)
        nats += [float(F.cross_entropy(values, row[1:], reduction="sum")) for values in logits]
        same += [int((values.argmax(dim=-1) == last).sum()) for values in logits]
        tokens += len(ids) - 1
    return [
        {
            "layer": layer,
            "nats_per_token": float(nats[layer] / tokens),
            "same_as_last": float(same[layer] / tokens),
        }
        for layer in range(layers)
        if tokens
    ]


@contextmanager
def _streams(model: TinyLM) -> Iterator[list[Tensor]]:
    """What enters the first block and what each block gives while the model runs inside, (B, T, D) each."""
    found: list[Tensor] = []
    hooks = [model.blocks[0].register_forward_pre_hook(lambda _, given: found.append(given[0]))]
    hooks += [
        block.register_forward_hook(lambda _, __, given: found.append(given))
        for block in model.blocks
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
