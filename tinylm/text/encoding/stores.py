"""The tokenizer of section vocab, and with it the ids of every split, by several processes."""

from pathlib import Path
from typing import Any

from tinylm.host.runtime import Progress
from tinylm.host.workers import map_in_order
from tinylm.text.encoding.word_stores import write_word_stores
from tinylm.text.stores.token_store import Stream, as_stream, write_blocks
from tinylm.text.stories.stories import SPLITS, StoryBlock, read_stories, story_blocks, texts_of
from tinylm.text.tokens.settings import VocabSettings
from tinylm.text.tokens.tokenizer import Tokenizer, make_tokenizer

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
    tokenizer, seen = make_tokenizer(settings, lambda: (row["text"] for row in read_stories(stories, "train")))
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
