"""Words of many stories at once: a block's own words, how often each occurs, and the stream of their numbers.

The same rule as `words.Splitter`, for ASCII by tables over the whole block: control characters become spaces, letters
become lower-case, punctuation is deleted; what is between spaces is a word, and Arrow numbers the different ones. Text
that is not ASCII goes through the splitter piece by piece, since no step of the rule depends on what is beyond a space.

`CompiledSplitter` does the same with the lines of a story file, several times as fast.

Words carry the space after them (which sorts before every other byte of a word, so their order is unchanged). Bytes
that never occur in UTF-8 represent the special tokens.
"""

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinylm.kernels.text.counting import library
from tinylm.vocab.byte_level import whole_text
from tinylm.vocab.words import MAX_WORD, SPECIALS, Splitter

MARKS = tuple(
    bytes([0xFF - place]) + b" " for place in range(len(SPECIALS))
)  # of <sos> <eos> <pad> <unk>
SOS, EOS = MARKS[:2]
PARTS = 256  # words are distributed to parts by a hash, so that counts can be merged part by part
KEPT_PIECES = 1 << 16
SPACE = 0x20
NOT_HERE = 0xFF  # in the native kernel's table: a line with this character is left to the splitter


@dataclass(frozen=True)
class WordBlock:
    """words: (n,) Arrow binary, sorted by part, marks last; counts (n,); numbers (N,): the stream, as their places.

    borders (PARTS + 1,): words[borders[p] : borders[p + 1]] belong to part p.
    """

    words: Any
    counts: np.ndarray
    numbers: np.ndarray
    borders: np.ndarray


def part_of(word: bytes) -> int:
    """The part that a word belongs to; PARTS for a mark and for an empty word."""
    return PARTS if word in MARKS or word == b" " else zlib.crc32(word) % PARTS


class _Pieces(dict[str, str]):
    """The text between two spaces -> its words with one space between them; a cache, emptied when it is full."""

    def __init__(self, split: Splitter) -> None:
        super().__init__()
        self._split = split

    def __missing__(self, piece: str) -> str:
        if len(self) >= KEPT_PIECES:
            self.clear()
        self[piece] = words = " ".join(self._split(piece))
        return words


class BlockSplitter:
    """texts -> WordBlock."""

    def __init__(self, split: Splitter) -> None:
        self._split, self._pieces = split, _Pieces(split)
        self._whole = split.punctuation == "keep"  # a table cannot express its rule
        table = bytearray(range(256))
        deleted = bytearray()
        for code, new in split.table.items():
            if new is None:
                deleted.append(code)
            else:
                table[code] = ord(new) if isinstance(new, str) else new
        self._table, self._deleted = bytes(table), bytes(deleted)

    def prepared(self, text: str, whole: bool) -> bytes:
        """Text that the tables can split; whole: the splitter splits all of it."""
        if not text.isascii():
            text = " ".join(map(self._pieces.__getitem__, whole_text(text).split(" ")))
        elif whole or (self._split.punctuation == "attached" and "<" in text):
            text = " ".join(self._split(text))
        return text.encode()

    def _array(self, texts: Iterable[str], whole: bool) -> Any:
        """The words of all texts between their marks, with empty words between adjacent spaces, as Arrow binary."""
        import pyarrow

        joined = (b" " + EOS + SOS).join([self.prepared(text, whole) for text in texts])
        content = b"".join((SOS, joined, b" " + EOS)).translate(self._table, self._deleted)
        del joined
        ends = np.flatnonzero(np.frombuffer(content, np.uint8) == SPACE).astype(
            np.int32
        ) + np.int32(1)
        offsets = np.concatenate([np.zeros(1, np.int32), ends])
        buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(content)]
        return pyarrow.Array.from_buffers(pyarrow.binary(), len(ends), buffers), int(
            np.diff(offsets).max()
        )

    def __call__(self, texts: Iterable[str]) -> WordBlock:
        """The block of these stories, each as `<sos> words <eos>`; at least one story, 2 GiB of text at most."""
        import pyarrow

        texts = list(texts)
        array, longest = self._array(texts, self._whole)
        if longest > MAX_WORD + 1 and not self._whole:
            array, _ = self._array(texts, True)
        encoded = array.dictionary_encode()
        found = encoded.dictionary.to_pylist()
        parts = np.fromiter(map(part_of, found), np.int64, len(found))
        order = np.argsort(parts, kind="stable")
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        kind = np.uint16 if len(found) <= 1 << 16 else np.uint32
        numbers = places.astype(kind)[encoded.indices.to_numpy()]
        if b" " in found:
            numbers = numbers[numbers != places[found.index(b" ")]]
        return WordBlock(
            encoded.dictionary.take(pyarrow.array(order)),
            np.bincount(numbers, minlength=len(found)),
            numbers,
            np.searchsorted(parts[order], np.arange(PARTS + 1)),
        )


class CompiledSplitter:
    """Lines of a story file -> WordBlock. Raises CannotCompile if there is no library."""

    def __init__(self, split: Splitter) -> None:
        """One instance for the life of the process."""
        self._others = BlockSplitter(split)
        made = [split.table.get(code, chr(code)) or "\0" for code in range(128)]
        table = np.array([ord(new) if isinstance(new, str) else new for new in made], np.uint8)
        table[{"keep": range(128), "attached": [ord("<")], "drop": []}[split.punctuation]] = (
            NOT_HERE
        )
        self._words = library().tinylm_words_new(table.ctypes.data, MAX_WORD)

    def __call__(self, lines: bytes, text_of: Callable[[bytes], str]) -> WordBlock:
        """The block of these stories; text_of: the text of a line that is not plain."""
        at = 0
        library().tinylm_words_begin(self._words, SOS + EOS, 2)
        while (at := library().tinylm_words_lines(self._words, lines, len(lines), at)) < len(lines):
            end = lines.find(b"\n", at) + 1 or len(lines)
            words = self._others.prepared(text_of(lines[at:end]), True)
            library().tinylm_words_story(self._words, words, len(words))
            at = end
        return self._taken()

    def _taken(self) -> WordBlock:
        import pyarrow

        sizes = np.empty(3, np.int64)
        library().tinylm_words_sizes(self._words, sizes.ctypes.data)
        words, size, total = sizes.tolist()
        starts, text = np.empty(words + 1, np.int32), np.empty(size, np.uint8)
        counts, borders = np.empty(words, np.int64), np.empty(PARTS + 1, np.int64)
        numbers = np.empty(total, np.uint16 if words <= 1 << 16 else np.uint32)
        arrays = [array.ctypes.data for array in (starts, text, counts, borders, numbers)]
        library().tinylm_words_take(self._words, PARTS, 2, *arrays)
        buffers = [None, pyarrow.py_buffer(starts), pyarrow.py_buffer(text)]
        return WordBlock(
            pyarrow.Array.from_buffers(pyarrow.binary(), words, buffers), counts, numbers, borders
        )
