"""Attention weights of evaluation sentences, with the model's next token, for pictures and measures."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from tinylm.base import paths
from tinylm.base.files import atomic_write
from tinylm.model.transformer import TinyLM
from tinylm.vocab.token_store import TokenStore

MAX_TOKENS = 24  # a heat map with more words cannot be read


class AttentionMaps(NamedTuple):
    """maps (layers, H, T, T) float32; then the likeliest next token and its probability."""

    maps: np.ndarray
    next_id: int
    next_prob: float


def passages(store: TokenStore, count: int, context: int) -> list[np.ndarray]:
    """Different starts of stories spread evenly over the split, each cut to the context.

    If the split has fewer stories than `count`, further pieces of long stories are used as well.
    """
    cuts: dict[bytes, np.ndarray] = {}
    for index in range(len(store)):
        story = store.story(index)
        end = len(story) if len(store) < count else 1
        for start in range(0, end, context):
            cut = np.array(story[start : start + context])
            cuts.setdefault(cut.tobytes(), cut)
    different = list(cuts.values())
    spread = np.linspace(0, len(different) - 1, min(count, len(different)))
    return [different[index] for index in spread.astype(int)]


@torch.no_grad()
def attention(model: TinyLM, ids: Sequence[int] | np.ndarray) -> AttentionMaps:
    """Attention of every layer and head over one row of ids (T,), and the likeliest next token."""
    row = torch.as_tensor(np.asarray(ids, dtype=np.int64), device=model.embedding.device)
    hidden, maps = model.hidden_states_and_attention(row[None])
    logits = model.logits(hidden[0, -1]).double()
    probabilities = torch.softmax(logits, dim=-1)
    probability, token = probabilities.max(dim=-1)
    stacked = torch.cat(maps).float()  # one row of ids: (layers, H, T, T)
    return AttentionMaps(stacked.cpu().numpy(), int(token), float(probability))


def head_table(layers: int, heads: int) -> pd.DataFrame:
    """A row for each head of a model: its layer and number, both from 1."""
    return pd.DataFrame(np.ndindex(layers, heads), columns=["layer", "head"]) + 1


def write_maps(model: TinyLM, tokens: Sequence[str], store: TokenStore, sentences: int) -> None:
    """Write attention.npz over the first sentences, at most `MAX_TOKENS` of each.

    For sentence i, from 1: words_i (T,), maps_i (layers, H, T, T), next_i and next_prob_i.
    tokens: how each id is shown.
    """
    arrays = {}
    stories = passages(store, sentences, model.settings.context)
    for number, story in enumerate(stories, start=1):
        ids = story[:MAX_TOKENS]
        result = attention(model, ids)
        arrays[f"words_{number}"] = np.array([tokens[token] for token in ids])
        arrays[f"maps_{number}"] = result.maps
        arrays[f"next_{number}"] = np.array(tokens[result.next_id])
        arrays[f"next_prob_{number}"] = np.array(result.next_prob)
    with atomic_write(paths.evaluated("attention.npz"), "wb") as handle:
        np.savez(handle, allow_pickle=False, **arrays)
