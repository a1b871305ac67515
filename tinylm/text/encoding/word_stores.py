"""Words counted, the vocabulary chosen and every split's ids written, in one pass over the stories.

Each block of stories is split once, by any number of processes, into numbers of its own words; when the words of all
blocks of train are counted, numbers become ids by a table for each block. The bytes equal the plain implementation's:
`build_tokenizer(count_words(texts))`, then `write_store` of each story's `encode_story`.
"""

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tinylm.base.files import scratch_file
from tinylm.host.runtime import Progress
from tinylm.host.workers import ahead, map_in_order
from tinylm.kernels.text.counting import LIBRARY
from tinylm.text.stores.token_store import Stream, id_type, write_blocks
from tinylm.text.stories.stories import SPLITS, StoryBlock, lines_of, story_blocks, text_of, texts_of
from tinylm.text.tokens.settings import VocabSettings
from tinylm.text.tokens.word_blocks import MARKS, BlockSplitter, CompiledSplitter, WordBlock
from tinylm.text.tokens.word_counts import Scratch, frequent_words
from tinylm.text.tokens.words import SOS_ID, UNK_ID, Splitter, WordTokenizer, nothing_left

MANY = 8  # from so many blocks on, a compiler is worth starting
_splitter: BlockSplitter | CompiledSplitter


def _prepare(lower_case: bool, punctuation: str, compiled: bool) -> None:
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
    known = pyarrow.array([*MARKS, *(word.encode() + b" " for word in tokenizer.tokens[len(MARKS) :])])
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
        found = map_in_order(_split, every, workers, _prepare, (settings.lower_case, settings.punctuation, compiled))
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
