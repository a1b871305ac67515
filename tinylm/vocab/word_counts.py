"""Counts of all blocks' words added up, within bounded memory however many different words there are.

Blocks are in a scratch file; their words are merged a few parts at a time (see `word_blocks.PARTS`), and each merge
keeps only words that can still enter the vocabulary.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from tinylm.vocab.settings import VocabSettings
from tinylm.vocab.word_blocks import PARTS, WordBlock

MERGED_WORDS = 1 << 20  # words of blocks that are merged at a time
SLACK = 1 << 19  # words kept beyond max_size before the rarest are dropped


@dataclass(frozen=True)
class _Place:
    """Where a block is in the scratch file, in the order of these fields."""

    at: int
    words: int
    text: int  # bytes of all words
    numbers: int
    kind: Any  # type of a number
    borders: np.ndarray


class Scratch:
    """Blocks on disk, in an open file without a name."""

    def __init__(self, handle: IO[bytes]) -> None:
        self._number = (
            handle.fileno()
        )  # read and written by position, since a fork shares the handle's position
        self.places: list[_Place] = []

    def add(self, block: WordBlock) -> None:
        """Write a block after the others."""
        _, offsets, text = block.words.buffers()
        starts = np.frombuffer(offsets, np.int32, len(block.words) + 1)
        at = os.fstat(self._number).st_size
        end = at
        texts = np.frombuffer(text, np.uint8, int(starts[-1]))
        for part in (starts, block.counts.astype(np.uint32), block.numbers, texts):
            left = part.view(np.uint8).data
            while left:
                written = os.pwrite(self._number, left, end)
                left, end = left[written:], end + written
        sizes = len(block.words), int(starts[-1]), len(block.numbers)
        self.places.append(_Place(at, *sizes, block.numbers.dtype, block.borders))

    def _read(self, at: int, count: int, kind: Any) -> np.ndarray:
        found = bytearray(count * np.dtype(kind).itemsize)
        done = 0
        while done < len(found):
            done += os.preadv(self._number, [memoryview(found)[done:]], at + done)
        return np.frombuffer(found, kind)

    def words(
        self, place: _Place, first: int = 0, last: int | None = None
    ) -> tuple[Any, np.ndarray]:
        """(Arrow binary, counts) of the words first to last of a block."""
        import pyarrow

        last = place.words if last is None else last
        starts = self._read(place.at + 4 * first, last - first + 1, np.int32)
        counts = self._read(place.at + 4 * (place.words + 1 + first), last - first, np.uint32)
        texts = place.at + 4 * (2 * place.words + 1) + place.numbers * place.kind.itemsize
        text = self._read(texts + int(starts[0]), int(starts[-1] - starts[0]), np.uint8)
        buffers = [None, pyarrow.py_buffer(starts - starts[0]), pyarrow.py_buffer(text)]
        return pyarrow.Array.from_buffers(pyarrow.binary(), last - first, buffers), counts

    def numbers(self, place: _Place) -> np.ndarray:
        """The stream of a block, (N,)."""
        return self._read(place.at + 4 * (2 * place.words + 1), place.numbers, place.kind)


def _merges(scratch: Scratch) -> Iterator[tuple[Any, np.ndarray]]:
    """(different words, their counts over all blocks), each word in one of the pairs."""
    import pyarrow

    total = sum(int(place.borders[-1]) for place in scratch.places)
    for parts in np.array_split(np.arange(PARTS), min(PARTS, 1 + total // MERGED_WORDS)):
        first, last = int(parts[0]), int(parts[-1]) + 1
        pairs = [
            scratch.words(p, int(p.borders[first]), int(p.borders[last])) for p in scratch.places
        ]
        merged = pyarrow.chunked_array(
            [words for words, _ in pairs], pyarrow.binary()
        ).combine_chunks()
        encoded = merged.dictionary_encode()
        counts = np.concatenate([counts for _, counts in pairs]).astype(
            np.float64
        )  # exact below 2 ** 53
        added = np.bincount(encoded.indices.to_numpy(), counts, len(encoded.dictionary)).astype(
            np.int64
        )
        yield encoded.dictionary, added


def _first(words: Any, counts: Any, most: int | None) -> tuple[Any, Any]:
    """The most frequent words, ties by word, in this order."""
    import pyarrow

    table = pyarrow.table({"word": words, "count": counts})
    table = table.sort_by([("count", "descending"), ("word", "ascending")]).slice(0, most)
    return table.column("word"), table.column("count")


def frequent_words(
    scratch: Scratch, settings: VocabSettings
) -> tuple[list[str], dict[str, int], tuple[str, int]]:
    """(vocabulary in its order, words seen and seen once, the most frequent word with its count).

    The vocabulary is that of `words.build_tokenizer`. Without any word: ([], ..., ("", 0)).
    """
    import pyarrow
    import pyarrow.compute

    kept = pyarrow.chunked_array([], pyarrow.binary()), pyarrow.chunked_array([], pyarrow.int64())
    seen = {"words_seen": 0, "words_seen_once": 0}
    top = ("", 0)
    for words, counts in _merges(scratch):
        if not len(counts):
            continue
        seen["words_seen"] += len(counts)
        seen["words_seen_once"] += int((counts == 1).sum())
        (word,), _ = _first(words, counts, 1)
        top = min(
            top,
            (word.as_py()[:-1].decode(), int(counts.max())),
            key=lambda pair: (-pair[1], pair[0]),
        )
        enough = pyarrow.array(counts >= settings.min_count)
        chosen = words.filter(enough), pyarrow.array(counts).filter(enough)
        kept = tuple(
            pyarrow.chunked_array([*old.chunks, new], old.type)
            for old, new in zip(kept, chosen, strict=True)
        )
        if settings.max_size is not None and len(kept[0]) > settings.max_size + SLACK:
            kept = _first(*kept, settings.max_size)
    ordered, _ = _first(*kept, settings.max_size)
    return [word[:-1].decode() for word in ordered.to_pylist()], seen, top
