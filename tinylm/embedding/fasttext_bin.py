"""fastText's binary format `.bin`: word vectors from a file of any size, through a memory map.

Little-endian: magic number and version; 12 integers and a double of the training; 5 numbers of the
dictionary, then each word as "text NUL count kind", labels last; then the input matrix (words, then
the buckets that character n-grams are hashed to) as "quantised? rows columns float32...". The
output matrix follows and is not read.

fastText's own loader is not used. It needs the size of the file in memory (7.2 GB for the published
`cc.en.300.bin`; this reader 132 MiB). It fills the memory without end if a file is cut in the
dictionary. A wrong number of buckets kills the process. A cut matrix goes unnoticed.

Source: github.com/facebookresearch/fastText (args.cc, dictionary.cc, fasttext.cc); Bojanowski et
al. 2017, "Enriching Word Vectors with Subword Information".
"""

import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinylm.base.config import InputError

MAGIC = 793712314
VERSIONS = (11, 12)
SUPERVISED = 3
HEADER = struct.Struct("<ii12id3iqq")
MATRIX_HEAD = struct.Struct("<Bqq")
ENTRY_END = 10  # bytes after a word: NUL, count (8), kind


def _hash(ngram: str) -> int:
    """32-bit FNV-1a of the UTF-8 bytes; as in fastText, those from 0x80 on count as negative."""
    value = 2166136261
    for byte in ngram.encode():
        signed = byte if byte < 0x80 else byte | 0xFFFFFF00
        value = (value ^ signed) * 16777619 % (1 << 32)
    return value


def subword_buckets(word: str, min_n: int, max_n: int, buckets: int) -> list[int]:
    """Buckets of the n-grams of `<word>`, min_n to max_n characters each, in fastText's order.

    n-grams are sorted by start, then by length; `<` and `>` alone do not count. `</s>` has none.
    """
    if word == "</s>":
        return []
    text = f"<{word}>"
    numbers = []
    for start in range(len(text)):
        longest = min(max_n, len(text) - start)
        for length in range(max(min_n, 1), longest + 1):
            bracket_alone = length == 1 and start in (0, len(text) - 1)
            if not bracket_alone:
                numbers.append(_hash(text[start : start + length]) % buckets)
    return numbers


@dataclass(frozen=True)
class BinFile:
    """matrix: (words + buckets, D), mapped. row_of: the row of each word of the dictionary."""

    matrix: np.ndarray
    row_of: dict[bytes, int]
    buckets: int
    min_n: int
    max_n: int

    def rows(self, word: str) -> list[int]:
        """The rows whose mean is a word's vector: its own, if it has one, and its n-grams'."""
        encoded = word.encode()
        rows = [self.row_of[encoded]] if encoded in self.row_of else []
        if self.max_n:
            first = len(self.matrix) - self.buckets
            buckets = subword_buckets(word, self.min_n, self.max_n, self.buckets)
            rows += [first + bucket for bucket in buckets]
        return rows


def open_bin(path: Path, width: int) -> BinFile:
    """The file's dictionary and mapped matrix; no vector is read.

    Raises InputError for a file that is damaged, quantised, or of another width or version.
    """
    try:
        with open(path, "rb") as handle:
            content = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        return _parse(content, width)
    except (struct.error, ValueError, OverflowError, OSError) as error:
        reason = str(error)[:80]
        raise InputError(f"{path}: not a whole fastText .bin file ({reason})") from None


def _parse(content: mmap.mmap, width: int) -> BinFile:
    """Raises ValueError, OverflowError or struct.error for a file that cannot be read."""
    header = HEADER.unpack_from(content)
    magic, version, dim = header[:3]
    model, buckets, min_n, max_n = header[9:13]
    if model == SUPERVISED and version == 11:
        max_n = 0  # as fastText: up to version 11 these models had no character n-grams
    words, labels, _, pruned = header[-4:]
    if magic != MAGIC or version not in VERSIONS:
        raise ValueError("not of version 11 or 12")
    if dim != width:
        raise ValueError(f"vectors of width {dim}; embedding.width = {width}")
    row_of = {}
    position = HEADER.size
    for row in range(words + labels):
        end = content.find(b"\0", position)
        if end < 0:
            raise ValueError("the dictionary has no end")
        if row < words:
            row_of[content[position:end]] = row  # the last of equal words counts, as in fastText
        position = end + ENTRY_END
    quantised, height, columns = MATRIX_HEAD.unpack_from(content, position)
    if quantised or pruned >= 0:
        raise ValueError("a quantised model; allowed: the whole one, with float32 vectors")
    if (height, columns) != (words + buckets, dim) or (max_n and buckets < 1):
        raise ValueError(f"a matrix of {height} x {columns}")
    start = position + MATRIX_HEAD.size
    matrix = np.frombuffer(content, "<f4", height * columns, start).reshape(height, columns)
    return BinFile(matrix, row_of, buckets, min_n, max_n)


def read_bin(path: Path, words: Sequence[str], width: int) -> np.ndarray:
    """(len(words), D) float32.

    Equal to fastText's own vectors to the bit: a word of the file is the mean of its row and its
    n-grams' rows, any other word of its n-grams' rows; without n-grams it is zero. Raises
    InputError.
    """
    file = open_bin(path, width)
    table = np.zeros((len(words), width), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for index, word in enumerate(words):
            rows = file.rows(word)
            for row in rows:  # in this order, as fastText does: the sum's last bits depend on it
                table[index] += file.matrix[row]
            table[index] *= np.float32(1 / max(len(rows), 1))
    damaged = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(damaged):
        word = words[damaged[0]]
        raise InputError(f"{path}: the vector of {word!r} is not finite; a damaged file")
    return table
