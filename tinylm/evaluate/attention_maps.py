"""Attention weights of evaluation sentences, with what the model expects next, for pictures and measures."""

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from tinylm.base.files import write_bytes
from tinylm.model.transformer import TinyLM
from tinylm.vocab.token_store import TokenStore

MAX_TOKENS = 24  # a heat map with more words cannot be read


class Look(NamedTuple):
    """maps (layers, H, T, T) float32; the likeliest token after the last one and its probability."""

    maps: np.ndarray
    next_id: int
    next_prob: float


def passages(store: TokenStore, count: int, context: int) -> list[np.ndarray]:
    """Starts of stories spread evenly over the split, each cut to the context.

    If the split has fewer stories than `count`, further pieces of long stories are used as well.
    """
    starts, ends = store.offsets[:-1], store.offsets[1:]
    if len(store) < count:
        pieces = np.maximum(-(-(ends - starts) // context), 1)
        piece = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        starts, ends = np.repeat(starts, pieces) + piece * context, np.repeat(ends, pieces)
    picked = np.linspace(0, len(starts) - 1, min(count, len(starts))).astype(int)
    return [np.array(store.ids[starts[i] : min(ends[i], starts[i] + context)]) for i in picked]


def opening_sentences(store: TokenStore, count: int, context: int) -> list[np.ndarray]:
    """The first tokens of `passages`, at most `MAX_TOKENS` of each."""
    return [ids[:MAX_TOKENS] for ids in passages(store, count, context)]


@torch.no_grad()
def look(model: TinyLM, ids: Sequence[int] | np.ndarray) -> Look:
    """Attention of every layer and head over one row of ids (T,), and what the model expects next."""
    maps: list[torch.Tensor] = []
    row = torch.as_tensor(np.asarray(ids, dtype=np.int64), device=model.embedding.device)[None]
    hidden = model.hidden(row, maps=maps)[0, -1]
    probability, token = torch.softmax(model.logits(hidden).double(), dim=-1).max(dim=-1)
    return Look(
        torch.stack([layer[0] for layer in maps]).float().cpu().numpy(),
        int(token),
        float(probability),
    )


def sentence_arrays(
    model: TinyLM, tokens: Sequence[str], sentences: Iterable[np.ndarray]
) -> dict[str, Any]:
    """For sentence i, from 1: words_i (T,), maps_i (layers, H, T, T), next_i and next_prob_i."""
    arrays: dict[str, Any] = {}
    for number, ids in enumerate(sentences, start=1):
        found = look(model, ids)
        arrays[f"words_{number}"] = np.array([tokens[i] for i in ids])
        arrays[f"maps_{number}"] = found.maps
        arrays[f"next_{number}"] = np.array(tokens[found.next_id])
        arrays[f"next_prob_{number}"] = np.array(found.next_prob)
    return arrays


def map_arrays(
    model: TinyLM,
    kept: Sequence[tuple[float, TinyLM]],
    tokens: Sequence[str],
    sentences: Sequence[np.ndarray],
) -> dict[str, dict[str, Any]]:
    """The arrays of each file by its name: `sentence_arrays`, and `moment_arrays` where weights were kept."""
    found = {"attention": sentence_arrays(model, tokens, sentences)}
    return found | ({"moments": moment_arrays(kept, tokens, sentences[0])} if kept else {})


def moment_arrays(
    moments: Iterable[tuple[float, TinyLM]], tokens: Sequence[str], ids: np.ndarray
) -> dict[str, np.ndarray]:
    """One sentence at M epoch checkpoints, at least one.

    epochs (M,), words (T,), maps (M, layers, H, T, T), next and next_prob (M,).
    """
    found = [(epoch, look(model, ids)) for epoch, model in moments]
    return {
        "epochs": np.array([epoch for epoch, _ in found]),
        "words": np.array([tokens[i] for i in ids]),
        "maps": np.stack([seen.maps for _, seen in found]),
        "next": np.array([tokens[seen.next_id] for _, seen in found]),
        "next_prob": np.array([seen.next_prob for _, seen in found]),
    }


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """One .npz file of named arrays: the same bytes from every Python, which np.savez does not give."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.save(content, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue())
    write_bytes(path, whole.getvalue())
