"""The stream of tokens cut into train and held-out, for `data.held_out: tokens`."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.vocab.token_store import TokenStore, write_store


def cut_stream(folder: str | Path, share: float, overlap: int) -> dict[str, Any]:
    """Cut the store `train`, which holds the whole stream, into stores `train` and `held_out`.

    N ids: cut = int((1 - share) * (N - overlap)), train = ids[:cut + overlap], held_out =
    ids[cut:]. With overlap = context, the windows of context + 1 ids at stride 1 are cut at the
    same share: int((1 - share) * windows) start in train, the rest in held_out. If the store
    `evaluation` is empty, it becomes a copy of held_out.

    Returns where the cut is, and notes on what crosses it. Raises InputError if a side has nothing
    to predict or no token of its own.
    """
    whole = TokenStore(folder, "train")
    tokens = len(whole.ids)
    cut = _position(tokens, share, overlap)
    size = whole.vocab_size
    write_store(folder, "held_out", _pieces(whole, cut, tokens), size)
    evaluation = "evaluation has stories of its own"
    if not len(TokenStore(folder, "evaluation").ids):
        evaluation = "evaluation is the held-out tokens"
        write_store(folder, "evaluation", _pieces(whole, cut, tokens), size)
    write_store(folder, "train", _pieces(whole, 0, cut + overlap), size)
    notes = [
        f"train is ids[:{cut + overlap}], held out ids[{cut}:]: windows straddle the cut by "
        f"{overlap} tokens",
        "a vocabulary or skip-gram vectors made here saw the whole stream",
        evaluation,
    ]
    return {
        "by": "tokens",
        "stream_tokens": tokens,
        "cut": cut,
        "overlap": overlap,
        "notes": notes,
    }


def _position(tokens: int, share: float, overlap: int) -> int:
    """Where the stream is cut. Raises InputError as `cut_stream` says."""
    cut = int((1 - share) * (tokens - overlap))
    smaller_side = min(cut, tokens - overlap - cut)
    if smaller_side < 1 or smaller_side + overlap < 2:
        raise InputError(
            f"{PARAMS_FILE}: data.held_out_share: the cut leaves one side without tokens of its "
            f"own (share {share}, overlap {overlap}, {tokens} tokens in all)"
        )
    return cut


def _pieces(store: TokenStore, first: int, last: int) -> Iterator[np.ndarray]:
    """The stories within ids[first:last]; those that cross an end are cut there."""
    borders = np.unique(store.offsets.clip(first, last))
    for start, end in itertools.pairwise(borders):
        yield store.ids[start:end]
