"""Stories to token stores, in several processes."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tinylm.base.parallel import in_groups, map_in_order
from tinylm.base.progress import Progress
from tinylm.text.stories import SPLITS, read_texts
from tinylm.vocab.token_store import Packed, pack, write_packed
from tinylm.vocab.tokenizer import Tokenizer

STORIES_AT_ONCE = 2000  # encoded by a process as one task


def encode_splits(tokenizer: Tokenizer, stories: Path, folder: Path, workers: int) -> None:
    """Encode each split with several processes, and write its store to `folder`.

    The bytes depend only on the tokenizer and the stories. Raises InputError.
    """
    with Progress("stories to ids", None, "stories") as progress:
        for split in SPLITS:
            groups = in_groups(read_texts(stories, split), STORIES_AT_ONCE)
            encoded = map_in_order(_encode, groups, workers, tokenizer)
            write_packed(folder, split, _counted(encoded, progress), len(tokenizer))


def _encode(texts: Sequence[str], tokenizer: Tokenizer) -> Packed:
    return pack(map(tokenizer.encode_story, texts), len(tokenizer))


def _counted(encoded: Iterable[Packed], progress: Progress) -> Iterator[Packed]:
    for ids, lengths in encoded:
        progress.advance(len(lengths))
        yield ids, lengths
