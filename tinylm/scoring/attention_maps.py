"""Attention weights of evaluation sentences, for pictures and for what each head does."""

from collections.abc import Sequence

import numpy as np
import torch

from tinylm.model.lm import TinyLM
from tinylm.scoring.head_tendencies import HeadTendencies
from tinylm.text.token_store import TokenStore

MAX_TOKENS = 24  # a heat map with more words cannot be read


def opening_sentences(store: TokenStore, count: int, context: int) -> list[np.ndarray]:
    """The first tokens of stories spread evenly over the split, <sos> included, at most `MAX_TOKENS` of each."""
    picked = np.linspace(0, len(store) - 1, min(count, len(store))).astype(int)
    return [np.array(store.story(int(i))[: min(MAX_TOKENS, context)]) for i in picked]


def whole_stories(store: TokenStore, count: int, context: int) -> list[np.ndarray]:
    """Stories spread evenly over the split, each cut to the context."""
    picked = np.linspace(0, len(store) - 1, min(count, len(store))).astype(int)
    return [np.array(store.story(int(i))[:context]) for i in picked]


@torch.no_grad()
def attention_maps(model: TinyLM, ids: Sequence[int] | np.ndarray) -> np.ndarray:
    """Attention weights of every layer and head for one row of ids (T,).  -> (layers, H, T, T) float32"""
    maps: list[torch.Tensor] = []
    model.hidden(torch.as_tensor(np.asarray(ids, dtype=np.int64), device=model.embedding.device)[None], maps=maps)
    return torch.stack([layer[0] for layer in maps]).float().cpu().numpy()


def head_table(model: TinyLM, stories: Sequence[np.ndarray], boundary_ids: Sequence[int]) -> list[dict]:
    """What each head attends to, measured over the given stories (see `HeadTendencies`)."""
    tendencies = HeadTendencies(boundary_ids)
    for ids in stories:
        tendencies.add(list(attention_maps(model, ids)), ids)
    return tendencies.table()
