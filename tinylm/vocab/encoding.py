"""Build the tokenizer, then encode every split in parallel."""

import contextlib
import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.files import scratch_file
from tinylm.download.in_order import ahead, map_in_order
from tinylm.download.stories import (
    SPLITS,
    StoryBlock,
    lines_of,
    read_stories,
    story_blocks,
    text_of,
    texts_of,
)
from tinylm.host.progress import Progress
from tinylm.kernels.text.counting import LIBRARY
from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.token_store import (
    Stream,
    TokenStore,
    as_stream,
    id_type,
    write_blocks,
    write_store,
)
from tinylm.vocab.tokenizer import Tokenizer, make_tokenizer
from tinylm.vocab.word_blocks import MARKS, BlockSplitter, CompiledSplitter, WordBlock
from tinylm.vocab.word_counts import Scratch, frequent_words
from tinylm.vocab.words import SOS_ID, UNK_ID, Splitter, WordTokenizer, nothing_left

_tokenizer: Tokenizer


def _prepare(tokenizer: Tokenizer) -> None:
    global _tokenizer
    _tokenizer = tokenizer


def _encode(block: StoryBlock) -> Stream:
    return as_stream(map(_tokenizer.encode_story, texts_of(block)))


def write_stores(
    settings: VocabSettings, stories: Path, folder: Path, workers: int, every_s: float = 5.0
) -> tuple[Tokenizer, dict[str, Any]]:
    """(tokenizer of the train split, figures to report about it); writes each split's store into `folder`.

    The bytes depend only on settings and stories. Raises InputError.
    """
    if settings.tokenizer == "words":
        return write_word_stores(settings, stories, folder, workers, every_s)
    tokenizer, seen = make_tokenizer(
        settings, lambda: (row["text"] for row in read_stories(stories, "train"))
    )
    blocks = {split: story_blocks(stories, split) for split in SPLITS}
    every = [block for split in SPLITS for block in blocks[split]]
    workers = min(workers, len(blocks["train"]))
    with Progress("ids", sum(map(len, every)) >> 10, "KB", every_s) as progress:
        streams = map_in_order(_encode, every, workers, _prepare, (tokenizer,))

        def counted(block: StoryBlock) -> Stream:
            progress.advance(len(block) >> 10)
            return next(streams)

        for split in SPLITS:
            write_blocks(folder, split, map(counted, blocks[split]), len(tokenizer))
        streams.close()
    return tokenizer, seen


def _pieces(store: TokenStore, first: int, last: int) -> Iterator[np.ndarray]:
    """The stories within ids[first:last], those at its ends truncated there."""
    borders = np.unique(store.offsets.clip(first, last))
    for start, end in itertools.pairwise(borders):
        yield store.ids[start:end]


def cut_stream(
    folder: str | Path, share: float, overlap: int, *, vectors: bool = False
) -> dict[str, Any]:
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


MANY = 8  # from this many blocks on, a compiler is worth starting
_splitter: BlockSplitter | CompiledSplitter


def _prepare_splitter(lower_case: bool, punctuation: str, compiled: bool) -> None:
    global _splitter
    _splitter = (CompiledSplitter if compiled else BlockSplitter)(Splitter(lower_case, punctuation))


def _split(block: StoryBlock) -> WordBlock:
    if isinstance(_splitter, CompiledSplitter):
        return _splitter(lines_of(block), functools.partial(text_of, block=block))
    return _splitter(texts_of(block))


def _streams(scratch: Scratch, tokenizer: WordTokenizer) -> Iterator[Stream]:
    """(ids, tokens of each story) of each block."""
    import pyarrow
    import pyarrow.compute

    dtype = id_type(len(tokenizer))
    known = pyarrow.array(
        [*MARKS, *(word.encode() + b" " for word in tokenizer.tokens[len(MARKS) :])]
    )
    for place in scratch.places:
        words, _ = scratch.words(place)
        found = pyarrow.compute.index_in(words, value_set=known).fill_null(UNK_ID).to_numpy()
        ids = found.astype(dtype)[scratch.numbers(place)]
        yield ids, np.diff(np.flatnonzero(ids == SOS_ID), append=len(ids))


def write_word_stores(
    settings: VocabSettings, stories: Path, folder: Path, workers: int, every_s: float = 5.0
) -> tuple[WordTokenizer, dict[str, Any]]:
    """The tokenizer of the train split, and figures on its words; writes the store of each split into `folder`.

    Raises InputError if no word is left.
    """
    blocks = {split: story_blocks(stories, split) for split in SPLITS}
    every = [block for split in SPLITS for block in blocks[split]]
    workers = min(workers, len(blocks["train"]))
    with (
        scratch_file(folder) as handle,
        Progress("words", sum(map(len, every)) >> 10, "KB", every_s) as progress,
    ):
        scratches = {split: Scratch(handle) for split in SPLITS}
        compiled = len(blocks["train"]) >= MANY and LIBRARY.is_at_hand()
        found = map_in_order(
            _split,
            every,
            workers,
            _prepare_splitter,
            (settings.lower_case, settings.punctuation, compiled),
        )
        for split in SPLITS:
            for block in blocks[split]:
                scratches[split].add(next(found))
                progress.advance(len(block) >> 10)
        found.close()
        vocabulary, seen, top = frequent_words(scratches["train"], settings)
        if not vocabulary:
            raise nothing_left(settings, top)
        tokenizer = WordTokenizer(vocabulary, Splitter(settings.lower_case, settings.punctuation))
        for split in SPLITS:
            with contextlib.closing(ahead(_streams(scratches[split], tokenizer))) as streams:
                write_blocks(folder, split, streams, len(tokenizer))
    return tokenizer, seen
