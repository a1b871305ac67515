"""The train split's token stream cut in two at a token: what comes after the cut is held out."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.text.stores.token_store import TokenStore, write_store


def _pieces(store: TokenStore, first: int, last: int) -> Iterator[np.ndarray]:
    """The stories within ids[first:last], those at its ends truncated there."""
    borders = np.unique(store.offsets.clip(first, last))
    for start, end in itertools.pairwise(borders):
        yield store.ids[start:end]


def cut_stream(folder: str | Path, share: float, overlap: int, *, vectors: bool = False) -> dict[str, Any]:
    """Cut the store `train`, which has the whole stream, into the stores `train` and `held_out`.

    N ids: cut = int((1 - share) * (N - overlap)), train = ids[:cut + overlap], held_out = ids[cut:]. With overlap =
    context, the windows of context + 1 ids at stride 1 are cut at the same share: int((1 - share) * windows) start
    in train, the rest in held_out. If the store `evaluation` is empty, it becomes the same as held_out.

    Returns the place of the cut, and notes on what crosses it; `vectors`: skip-gram vectors use this text too.
    Raises InputError if a side has nothing to predict or shares all its tokens with the other.
    """
    whole = TokenStore(folder, "train")
    tokens = len(whole.ids)
    cut = int((1 - share) * (tokens - overlap))
    own = cut, tokens - overlap - cut
    if min(own) < 1 or min(own) + overlap < 2:
        raise InputError(
            f"{PARAMS_FILE}: data.held_out_share = {share}, data.overlap = {overlap}: the train stories make {tokens} "
            "tokens; allowed: values that give each side of the cut two tokens, one of them its own"
        )
    same = not len(TokenStore(folder, "evaluation").ids)
    for split in ("held_out", "evaluation")[: 1 + same]:
        write_store(folder, split, _pieces(whole, cut, tokens), whole.vocab_size)
    write_store(folder, "train", _pieces(whole, 0, cut + overlap), whole.vocab_size)
    notes = [
        f"train is ids[:{cut + overlap}], held out ids[{cut}:]: windows straddle the cut by {overlap} tokens",
        f"a vocabulary{' and word vectors' if vectors else ''} made here saw the whole stream",
        "evaluation is the held-out tokens" if same else "evaluation has stories of its own",
    ]
    return {"by": "tokens", "stream_tokens": tokens, "cut": cut, "overlap": overlap, "notes": notes}
