"""How much of a split the vocabulary knows, and how long its stories are."""

from collections.abc import Collection
from typing import Any

import numpy as np

from tinylm.vocab.token_store import TokenStore


def coverage(store: TokenStore, unk_id: int | None, marks: Collection[int]) -> dict[str, Any]:
    """The shares of a split's words that are and that are not `<unk>`, and the words per story.

    marks: ids of `<sos>` and `<eos>`, which are not counted as words. Without unk_id, every word
    is known.
    """
    lengths = np.diff(store.offsets)  # words of each story
    unknown = 0
    for mark in marks:
        lengths = lengths - store.count(mark)
    if unk_id is not None:
        unknown = int(store.count(unk_id).sum())
    words = int(lengths.sum())
    share = unknown / words if words else 0.0
    return {
        "unknown_share": share,
        "coverage": 1.0 - share,
        "sequence_length": {
            "mean": round(float(lengths.mean()), 3) if words else 0.0,
            "median": float(np.median(lengths)) if words else 0.0,
            "largest": int(lengths.max(initial=0)),
        },
    }
