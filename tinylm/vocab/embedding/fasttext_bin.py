"""fastText's binary format `.bin`: word vectors from a file of any size, through a memory map.

fastText's own loader needs the size of the file in memory, 7.2 GB for the published `cc.en.300.bin`;
this reader needs 132 MiB. Vectors are equal to fastText's to the bit.

Little-endian: magic number and version; 12 integers and a double of the training; 5 numbers of the
dictionary, then each word as "text NUL count kind", labels last; then the input matrix (words, then
the buckets that character n-grams are hashed to) as "quantised? rows columns float32...".

Source: github.com/facebookresearch/fastText (args.cc, dictionary.cc, fasttext.cc); Bojanowski et
al. 2017, "Enriching Word Vectors with Subword Information".
"""

import mmap
import struct
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tinylm.base.config import InputError

MAGIC = 793712314
VERSIONS = (11, 12)
SUPERVISED = 3
HEADER = struct.Struct("<ii12id3iqq")  # the fields of Header
MATRIX_HEAD = struct.Struct("<Bqq")
ENTRY_END = 10  # bytes after a word: NUL, count (8), kind


class Header(NamedTuple):
    """The numbers before the words. Those from `width` to `sampling` are the training's settings.

    entries = words + labels. pruned: n-grams that are left in a pruned model, -1 in any other.
    """

    magic: int
    version: int
    width: int
    window: int
    epochs: int
    min_count: int
    negatives: int
    ngram_words: int
    loss: int
    model: int
    buckets: int
    min_n: int
    max_n: int
    learning_rate_updates: int
    sampling: float
    entries: int
    words: int
    labels: int
    tokens: int
    pruned: int


def _hash(ngram: str) -> int:
    """32-bit FNV-1a of the UTF-8 bytes; as in fastText, those from 0x80 on count as negative."""
    value = 2166136261
    for byte in ngram.encode():
        signed = byte if byte < 0x80 else byte | 0xFFFFFF00
        value = (value ^ signed) * 16777619 % (1 << 32)
    return value


def ngrams(word: str, min_n: int, max_n: int) -> Iterator[str]:
    """The n-grams of `<word>`, min_n to max_n characters each, in fastText's order; `</s>` has none.

    They are sorted by start, then by length; `<` and `>` alone do not count.
    """
    text = "" if word == "</s>" else f"<{word}>"
    for start in range(len(text)):
        for end in range(start + max(min_n, 1), min(start + max_n, len(text)) + 1):
            is_bracket = end - start == 1 and start in (0, len(text) - 1)
            if not is_bracket:
                yield text[start:end]


class BinFile:
    """A file's dictionary, and its matrix (words + buckets, D), of which nothing is read yet.

    Raises InputError for a file that is damaged, quantised, or of another width or version.
    """

    def __init__(self, path: Path, width: int) -> None:
        try:
            with open(path, "rb") as handle:
                content = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
            self._parse(content, width)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        except (struct.error, ValueError, OverflowError, OSError) as error:
            raise InputError(
                f"{path}: not a complete fastText .bin file ({str(error)[:80]})"
            ) from None

    def _parse(self, content: mmap.mmap, width: int) -> None:
        """Raises ValueError, OverflowError or struct.error for a file that cannot be read.

        Raises InputError for a whole file that does not fit.
        """
        header = Header(*HEADER.unpack_from(content))
        if header.magic != MAGIC or header.version not in VERSIONS:
            raise ValueError("expected version 11 or 12")
        if (
            header.entries != header.words + header.labels
        ):  # floret writes more numbers before these
            raise ValueError("its counts do not add up, as in a floret model: use floret's .vec")
        if header.width != width:
            raise InputError(
                f"expected vectors of embedding.width = {width}, got width {header.width}"
            )
        self.buckets, self.min_n, self.max_n = header.buckets, header.min_n, header.max_n
        if header.model == SUPERVISED and header.version == 11:
            self.max_n = 0  # as fastText: up to version 11 these models had no character n-grams
        if self.buckets == 0:
            self.max_n = 0  # gensim writes a length here even if there are no n-grams
        matrix_start = self._read_words(content, header)
        self._map_matrix(content, matrix_start, header)

    def _read_words(self, content: mmap.mmap, header: Header) -> int:
        """Read the dictionary.  -> where the matrix begins"""
        self.row_of: dict[bytes, int] = {}
        self.written: dict[str, str] = {}  # composed words (NFC) that the file writes otherwise
        position = HEADER.size
        for row in range(header.entries):
            end = content.find(b"\0", position)
            if end < 0:
                raise ValueError("the dictionary is cut off")
            if row < header.words:
                word = content[position:end]
                self.row_of[word] = row  # the last of equal words, as in fastText
                text = "" if word.isascii() else word.decode("utf-8", "replace")
                if not unicodedata.is_normalized("NFC", text):
                    self.written.setdefault(unicodedata.normalize("NFC", text), text)
            position = end + ENTRY_END
        return position

    def _map_matrix(self, content: mmap.mmap, position: int, header: Header) -> None:
        """Find the matrix, (words + buckets, D); none of it is read yet."""
        quantised, height, columns = MATRIX_HEAD.unpack_from(content, position)
        if quantised or header.pruned >= 0:
            raise InputError("expected float32 vectors, got a quantised model (.ftz)")
        expected = (header.words + self.buckets, header.width)
        if (height, columns) != expected or (self.max_n and self.buckets < 1):
            raise ValueError(f"unexpected matrix of {height} x {columns}")
        values = np.frombuffer(content, "<f4", height * columns, position + MATRIX_HEAD.size)
        self.matrix = values.reshape(height, columns)

    def lists(self, word: str) -> bool:
        """Whether the dictionary has the word, in composed letters or not."""
        return word.encode() in self.row_of or word in self.written

    def vector(self, word: str) -> np.ndarray:
        """(D,) float32: the mean of the word's own row, if it has one, and its n-grams' rows.

        Without any row it is zero. A word that the dictionary has in another form (see `written`)
        is looked up in that form, with its n-grams.
        """
        if word.encode() not in self.row_of:
            word = self.written.get(word, word)
        encoded = word.encode()
        rows = [self.row_of[encoded]] if encoded in self.row_of else []
        if self.max_n:
            first = len(self.matrix) - self.buckets
            grams = ngrams(word, self.min_n, self.max_n)
            rows += [first + _hash(ngram) % self.buckets for ngram in grams]
        vector = np.zeros(self.matrix.shape[1], np.float32)
        for row in rows:  # in this order, as fastText does: the sum's last bits depend on it
            vector += self.matrix[row]
        return vector * np.float32(1 / max(len(rows), 1))


def read_bin(path: Path, words: Sequence[str], width: int) -> tuple[np.ndarray, np.ndarray]:
    """((N, D) float32 vectors of N words, (N,) bool: which the dictionary has). Raises InputError."""
    file = BinFile(path, width)
    table = np.zeros((len(words), width), np.float32)
    for index, word in enumerate(words):
        table[index] = file.vector(word)
    return table, np.array([file.lists(word) for word in words], bool)
