"""Build the tokenizer, then encode every split in several processes."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.download.in_order import in_groups, map_in_order
from tinylm.download.stories import SPLITS, read_texts
from tinylm.host.progress import Progress
from tinylm.vocab.kinds import make_tokenizer
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import Packed, TokenStore, pack, write_packed, write_store
from tinylm.vocab.tokenizer import Tokenizer

STORIES_AT_ONCE = 2000


def _encode(texts: Sequence[str], tokenizer: Tokenizer) -> Packed:
    return pack(map(tokenizer.encode_story, texts), len(tokenizer))


def write_stores(
    settings: VocabSettings, stories: Path, folder: Path, workers: int
) -> tuple[Tokenizer, dict[str, Any]]:
    """(tokenizer of the train split, counts to report); writes each split's store into `folder`.

    The bytes depend only on settings and stories. Raises InputError.
    """
    with Progress("stories to ids", None, "stories") as progress:

        def counted(texts: Iterator[str]) -> Iterator[str]:
            for group in in_groups(texts, STORIES_AT_ONCE):
                progress.advance(len(group))
                yield from group

        tokenizer, counts = make_tokenizer(
            settings, lambda: counted(read_texts(stories, "train")), workers
        )
        for split in SPLITS:
            groups = in_groups(counted(read_texts(stories, split)), STORIES_AT_ONCE)
            encoded = map_in_order(_encode, groups, workers, tokenizer)
            write_packed(folder, split, encoded, len(tokenizer))
    return tokenizer, counts


def _pieces(store: TokenStore, first: int, last: int) -> Iterator[np.ndarray]:
    """The stories within ids[first:last], those at its ends cut there."""
    borders = np.unique(store.offsets.clip(first, last))
    for start, end in itertools.pairwise(borders):
        yield store.ids[start:end]


def decoded(tokenizer: Tokenizer, store: TokenStore) -> Iterator[str]:
    """The stories of a store as text."""
    for index in range(len(store)):
        yield tokenizer.decode(store.story(index).tolist())


def cut_stream(
    folder: str | Path, share: float, overlap: int, *, vectors: bool = False
) -> dict[str, Any]:
    """Cut the store `train`, which has the whole stream, into the stores `train` and `held_out`.

    N ids: cut = int((1 - share) * (N - overlap)), train = ids[:cut + overlap], held_out =
    ids[cut:]. With overlap = context, the windows of context + 1 ids at stride 1 are cut at the
    same share: int((1 - share) * windows) start in train, the rest in held_out. If the store
    `evaluation` is empty, it becomes the same as held_out.

    Returns where the cut is, and notes on what crosses it; `vectors`: skip-gram vectors use this
    text too. Raises InputError if a side has nothing to predict or no token of its own.
    """
    whole = TokenStore(folder, "train")
    tokens = len(whole.ids)
    cut = int((1 - share) * (tokens - overlap))
    smaller_side = min(cut, tokens - overlap - cut)
    if smaller_side < 1 or smaller_side + overlap < 2:
        raise InputError(
            f"{PARAMS_FILE}: data.held_out_share: the cut leaves one side without tokens of its "
            f"own (share {share}, overlap {overlap}, {tokens} tokens in all)"
        )
    size = whole.vocab_size
    write_store(folder, "held_out", _pieces(whole, cut, tokens), size)
    evaluation = "evaluation has stories of its own"
    if not len(TokenStore(folder, "evaluation").ids):
        evaluation = "evaluation is the held-out tokens"
        write_store(folder, "evaluation", _pieces(whole, cut, tokens), size)
    write_store(folder, "train", _pieces(whole, 0, cut + overlap), size)
    makers = "a vocabulary and word vectors" if vectors else "a vocabulary"
    notes = [
        f"train is ids[:{cut + overlap}], held out ids[{cut}:]: windows straddle the cut by "
        f"{overlap} tokens",
        f"{makers} made here saw the whole stream",
        evaluation,
    ]
    info: dict[str, Any] = {"by": "tokens", "stream_tokens": tokens}
    return info | {"cut": cut, "overlap": overlap, "notes": notes}
