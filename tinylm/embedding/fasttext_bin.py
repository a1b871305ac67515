"""fastText's binary format `.bin`: word vectors from a file of any size, through a memory map.

Little-endian: magic number and version; 12 integers and a double of the training; 5 numbers of the
dictionary, then each word as "text NUL count kind", labels last; then the input matrix (words, then
the buckets that character n-grams are hashed to) as "quantised? rows columns float32...". The
output matrix follows and is not read. Files from before version 11 have no magic number and are
refused.

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

FNV_BASIS, FNV_PRIME, MASK = 2166136261, 16777619, (1 << 32) - 1
MAGIC, VERSIONS = 793712314, (11, 12)
SUPERVISED = 3
HEADER = struct.Struct("<ii12id3iqq")
MATRIX_HEAD = struct.Struct("<Bqq")
ENTRY_END = 10  # bytes after a word: NUL, count (8), kind
END_OF_SENTENCE = "</s>"

# fastText treats bytes as signed: those from 0x80 on change the upper bits of the hash
_SIGNED = [byte if byte < 0x80 else byte | 0xFFFFFF00 for byte in range(256)]


def subword_buckets(word: str, min_n: int, max_n: int, buckets: int) -> list[int]:
    """Buckets of the n-grams of `<word>`, min_n to max_n characters each, in fastText's order.

    bucket = h mod buckets, where h is the 32-bit FNV-1a hash of the n-gram's UTF-8 bytes (as signed
    numbers); n-grams sorted by start, then by length; `<` and `>` alone do not count. `</s>` has no
    n-grams.
    """
    if word == END_OF_SENTENCE:
        return []
    characters = [[_SIGNED[byte] for byte in character.encode()] for character in f"<{word}>"]
    bucket_numbers = []
    last = len(characters)
    for start in range(last):
        value = FNV_BASIS
        for end in range(start + 1, min(start + max_n, last) + 1):
            for byte in characters[end - 1]:
                value = (value ^ byte) * FNV_PRIME & MASK
            length = end - start
            bracket_alone = length == 1 and (start == 0 or end == last)
            if length >= min_n and not bracket_alone:
                bucket_numbers.append(value % buckets)
    return bucket_numbers


@dataclass(frozen=True)
class BinFile:
    """matrix: (words + buckets, D), mapped; row_of: the row of each word of the dictionary."""

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
    magic, version, dim, *training, _, words, labels, _, pruned = HEADER.unpack_from(content)
    if magic != MAGIC or version not in VERSIONS:
        raise ValueError("not of version 11 or 12")
    if dim != width:
        raise ValueError(f"vectors of width {dim}; embedding.width = {width}")
    model, buckets, min_n, max_n = training[6:10]
    if model == SUPERVISED and version == 11:
        max_n = 0  # as fastText: up to version 11 these models had no character n-grams
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


def read_bin(path: Path, words: Sequence[str], table: np.ndarray, covered: np.ndarray) -> int:
    """Fill `table` (len(words), D) and `covered` (len(words),); returns how many are from n-grams.

    Equal to fastText's own vectors to the bit: a word of the file is the mean of its row and its
    n-grams' rows, any other word of its n-grams' rows; without n-grams it has no vector. Raises
    InputError.
    """
    file = open_bin(path, table.shape[1])
    from_subwords = 0
    for index, word in enumerate(words):
        rows = file.rows(word)
        if not rows:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            for row in rows:  # in this order, as fastText does: the sum's last bits depend on it
                table[index] += file.matrix[row]
            table[index] *= np.float32(1 / len(rows))
        if not np.isfinite(table[index]).all():
            raise InputError(f"{path}: the vector of {word!r} is not finite; a damaged file")
        covered[index] = True
        from_subwords += word.encode() not in file.row_of
    return from_subwords
