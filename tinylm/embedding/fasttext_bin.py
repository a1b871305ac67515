"""fastText's binary format `.bin`: word vectors from a file of any size, reading only the rows that are needed.

Little-endian: magic number and version; 12 integers and a double of the training; 5 numbers of the dictionary, then
each word as "text NUL count kind", labels last; then the input matrix (words, then the buckets that character
n-grams are hashed to) and the output matrix, each as "quantised? rows columns float32...". Files from before
version 11 have no magic number, version, pruning or quantisation flag. The dictionary is streamed and rows are
fetched by position: a memory map would count as resident. A file must have exactly the length that its header implies.

Source: github.com/facebookresearch/fastText (args.cc, dictionary.cc, fasttext.cc); Bojanowski et al. 2017,
"Enriching Word Vectors with Subword Information".
"""

import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from tinylm.base.config import InputError

FNV_BASIS, FNV_PRIME, MASK = 2166136261, 16777619, (1 << 32) - 1
END_OF_SENTENCE = "</s>"

# fastText treats bytes as signed: those from 0x80 on change the upper bits of the hash
_SIGNED = [byte if byte < 0x80 else byte | 0xFFFFFF00 for byte in range(256)]


def subword_buckets(word: str, min_n: int, max_n: int, buckets: int) -> list[int]:
    """Buckets of the n-grams of `<word>`, min_n to max_n characters each, in fastText's order.

    bucket = h mod buckets, h the 32-bit FNV-1a hash of the n-gram's UTF-8 bytes (as signed numbers); n-grams
    sorted by start, then by length; `<` and `>` alone do not count. `</s>` has no n-grams.
    """
    if word == END_OF_SENTENCE:
        return []
    characters = [[_SIGNED[byte] for byte in character.encode()] for character in f"<{word}>"]
    found = []
    last = len(characters)
    for start in range(last):
        value = FNV_BASIS
        for end in range(start + 1, min(start + max_n, last) + 1):
            for byte in characters[end - 1]:
                value = (value ^ byte) * FNV_PRIME & MASK
            length = end - start
            if length >= min_n and not (length == 1 and (start == 0 or end == last)):
                found.append(value % buckets)
    return found


MAGIC, VERSIONS = 793712314, (11, 12)
CBOW, SKIPGRAM, SUPERVISED = 1, 2, 3
LONGEST_WORD = (1 << 16) - 1  # bytes
CHUNK = 1 << 22  # bytes of the dictionary in memory at a time
BLOCK = 1 << 25  # bytes of the input matrix in memory at a time
ENTRY_END = 10  # bytes after a word: NUL, count (8), kind
WORD_KIND, LABEL_KIND = 0, 1


@dataclass(frozen=True)
class Header:
    """What the reader needs to know about a file; offsets and sizes in bytes."""

    width: int
    supervised: bool
    buckets: int
    min_n: int
    max_n: int
    words: int
    labels: int
    old: bool
    entries: int  # offset of the dictionary's first word
    size: int  # of the file


def _unpack(handle: IO[bytes], form: str, path: Path) -> tuple:
    size = struct.calcsize(form)
    content = handle.read(size)
    if len(content) < size:
        raise InputError(f"{path}: ends within a header; truncated, or not a fastText .bin file")
    return struct.unpack(form, content)


def _read_header(handle: IO[bytes], path: Path) -> Header:
    """The numbers at the beginning of a file, each checked against bounds."""
    (first,) = _unpack(handle, "<i", path)
    old = first != MAGIC
    version = 0
    if not old:
        version, first = _unpack(handle, "<ii", path)
        if version not in VERSIONS:
            raise InputError(
                f"{path}, byte 4: version {version}; allowed: {' and '.join(map(str, VERSIONS))}"
            )
    model, buckets, min_n, max_n = _unpack(handle, "<11id", path)[6:10]
    entries, words, labels, _ = _unpack(handle, "<iiiq", path)
    pruned = -1 if old else _unpack(handle, "<q", path)[0]
    size = os.fstat(handle.fileno()).st_size
    if (
        not (1 <= first <= 1 << 16 and CBOW <= model <= SUPERVISED and words >= 1)
        or min(buckets, min_n, max_n, labels) < 0
        or entries != words + labels
        or handle.tell() + entries * (ENTRY_END + 1) > size
    ):
        what = (
            "neither fastText's magic number nor the header of its oldest files"
            if old
            else "a damaged header"
        )
        raise InputError(
            f"{path}: {what} (width {first}, words {words}, labels {labels}, buckets {buckets})"
        )
    if pruned >= 0:
        raise InputError(
            f"{path}: a pruned dictionary, as only quantised models have; allowed: the whole model"
        )
    supervised = model == SUPERVISED
    if supervised and version < VERSIONS[-1]:
        max_n = 0  # as fastText: up to version 11 these models had no character n-grams
    if max_n and not buckets:
        raise InputError(
            f"{path}: n-grams of up to {max_n} characters in 0 buckets; a damaged header"
        )
    return Header(first, supervised, buckets, min_n, max_n, words, labels, old, handle.tell(), size)


def _entries(handle: IO[bytes], path: Path, count: int, kind: int) -> Iterator[list[bytes]]:
    """The next `count` words of the dictionary, one list per chunk; leaves the handle after the last of them."""
    entry = re.compile(
        rb"([^\0]{1,%d}+)\0[\s\S]{8}%c|[\s\S]+" % (LONGEST_WORD, kind)
    )  # all or the unreadable rest
    at = handle.tell()
    while count:
        handle.seek(at)
        words = entry.findall(handle.read(CHUNK))
        if words and not words[-1]:
            words.pop()
        words = words[:count]
        if not words:
            raise InputError(
                f"{path}, byte {at}: not a dictionary entry; a damaged or truncated file"
            )
        at += sum(map(len, words)) + ENTRY_END * len(words)
        count -= len(words)
        handle.seek(at)
        yield words


def _find_rows(
    handle: IO[bytes], path: Path, header: Header, wanted: Mapping[bytes, int]
) -> tuple[dict[int, int], int]:
    """({number of a wanted word: its row of the input matrix}, words that occur again).

    The last of equal words counts, as in fastText. Leaves the handle after the dictionary.
    """
    rows: dict[int, int] = {}
    start = repeated = 0
    handle.seek(header.entries)
    for words in _entries(handle, path, header.words, WORD_KIND):
        for row, word in enumerate(words, start):
            if word in wanted:
                repeated += wanted[word] in rows
                rows[wanted[word]] = row
        start += len(words)
    for _ in _entries(handle, path, header.labels, LABEL_KIND):
        pass
    return rows, repeated


def _matrix(handle: IO[bytes], path: Path, header: Header, rows: int) -> int:
    """Offset of a matrix's first row; leaves the handle after the matrix, even if the file ends earlier."""
    at = handle.tell()
    *quantised, height, width = _unpack(handle, "<qq" if header.old else "<Bqq", path)
    if quantised == [1]:
        raise InputError(
            f"{path}: a quantised model (.ftz); allowed: the unquantised model, with float32 vectors"
        )
    if any(quantised) or (height, width) != (rows, header.width):
        raise InputError(
            f"{path}, byte {at}: a matrix of {height} x {width}; its header says {rows} x {header.width}"
        )
    start = handle.tell()
    handle.seek(start + 4 * rows * width)
    return start


def _open(
    handle: IO[bytes], path: Path, width: int, wanted: Mapping[bytes, int]
) -> tuple[Header, int, dict, int]:
    """(header, offset of the input matrix's rows, rows of wanted words, repeated words); nothing else is read."""
    header = _read_header(handle, path)
    if header.width != width:
        raise InputError(f"{path}: vectors of width {header.width}; embedding.width = {width}")
    rows, repeated = _find_rows(handle, path, header, wanted)
    start = _matrix(handle, path, header, header.words + header.buckets)
    if handle.tell() <= header.size:  # a truncated file gets its own message
        _matrix(handle, path, header, header.labels if header.supervised else header.words)
    if handle.tell() != header.size:
        raise InputError(
            f"{path}: {header.size} bytes; its header promises {handle.tell()}; truncated or damaged"
        )
    return header, start, rows, repeated


def check_bin(path: Path, width: int) -> None:
    """Raise InputError if header, dictionary, size or width do not fit; no vector is read."""
    with open(path, "rb") as handle:
        _open(handle, path, width, {})


def _fetch(handle: IO[bytes], path: Path, start: int, rows: np.ndarray, width: int) -> np.ndarray:
    """The matrix's rows of these numbers, (len(rows), D) float32."""
    fetched = np.empty((len(rows), width), dtype="<f4")
    for row, place in zip(fetched, rows.tolist(), strict=True):
        if os.preadv(handle.fileno(), [row.data], start + place * row.nbytes) != row.nbytes:
            raise InputError(f"{path}: ended while it was read")
    return fetched


def _blocks(parts: Sequence[Sequence[int]], most: int) -> Iterator[range]:
    """Groups of consecutive words with at most `most` parts together, but at least one word."""
    first = total = 0
    for index, own in enumerate(parts):
        if total + len(own) > most and index > first:
            yield range(first, index)
            first, total = index, 0
        total += len(own)
    yield range(first, len(parts))


def _fill(
    handle: IO[bytes], path: Path, start: int, parts: Sequence[Sequence[int]], table: np.ndarray
) -> None:
    """table[i] = mean of the rows parts[i], summed in float32 in their order, times float32(1 / n), as in fastText."""
    width = table.shape[1]
    for block in _blocks(parts, BLOCK // (4 * width)):
        rows, places = np.unique(
            np.concatenate([parts[index] for index in block]).astype(np.int64), return_inverse=True
        )
        fetched = _fetch(handle, path, start, rows, width)
        first = 0
        for index in block:
            total, count = np.zeros(width, dtype=np.float32), len(parts[index])
            for row in fetched[places[first : first + count]]:
                total += row
            if count:
                table[index] = total * np.float32(1 / count)
            first += count


def read_bin(
    path: Path, words: Sequence[str], table: np.ndarray, covered: np.ndarray
) -> tuple[int, list[str]]:
    """Fill `table` (len(words), D) and `covered` (len(words),); returns (words made of n-grams alone, warnings).

    Equal to fastText's own vectors to the bit: a word of the file is the mean of its row and its n-grams' rows, any
    other word of its n-grams' rows; without n-grams it has no vector. Raises InputError for a file that is damaged,
    quantised or of another width or version.
    """
    wanted = {word.encode(): index for index, word in enumerate(words)}
    with open(path, "rb") as handle:
        header, start, rows, repeated = _open(handle, path, table.shape[1], wanted)
        parts = []
        for index, word in enumerate(words):
            buckets = (
                subword_buckets(word, header.min_n, header.max_n, header.buckets)
                if header.max_n
                else []
            )
            own = [rows[index]] if index in rows else []
            parts.append(own + [header.words + bucket for bucket in buckets])
        with np.errstate(over="ignore", invalid="ignore"):
            _fill(handle, path, start, parts, table)
    covered[:] = [bool(own) for own in parts]
    broken = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(broken):
        raise InputError(
            f"{path}: the vector of {words[broken[0]]!r} is not finite; a damaged file"
        )
    repeats = (
        [f"{path}: {repeated} words stand there again; the last of each is used"]
        if repeated
        else []
    )
    return int(covered.sum()) - len(rows), repeats
