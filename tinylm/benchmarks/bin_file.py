"""A fastText .bin of the official shape: 2 M words, 2 M buckets, width 300; 7.2 GB, of which only the asked-for rows
take room on the disk (a sparse file)."""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tinylm.base.files import atomic_write
from tinylm.text.tokens.subwords import subword_buckets

MAGIC, SKIPGRAM, NEGATIVE_SAMPLING = 793712314, 2, 1
MIN_N, MAX_N = 3, 6
CHUNK = 100_000
LETTERS = "etaoinshrdlu"


def spelled(number: int) -> str:
    """A word for each number, none twice, of three letters and more."""
    word = ""
    while number or len(word) < 3:
        number, digit = divmod(number, len(LETTERS))
        word += LETTERS[digit]
    return word


def _entries(words: int) -> Iterator[bytes]:
    for start in range(0, words, CHUNK):
        numbers = range(start, min(start + CHUNK, words))
        yield b"".join(spelled(n).encode() + b"\0" + struct.pack("<qb", words - n, 0) for n in numbers)


def asked_words(words: int, count: int) -> list[str]:
    """`count` words spread over the dictionary, every fifth of them unknown to it."""
    step = max(1, words // count)
    return [spelled(n * step) if n % 5 else f"{spelled(n * step)}x" for n in range(count)]


def _rows(words: int, buckets: int, asked: Sequence[str]) -> np.ndarray:
    """Rows of the input matrix that the asked words need."""
    step = max(1, words // len(asked))
    known = {spelled(n * step): n * step for n in range(len(asked)) if n * step < words}
    rows = {known[word] for word in asked if word in known}
    rows |= {words + bucket for word in asked for bucket in subword_buckets(word, MIN_N, MAX_N, buckets)}
    return np.array(sorted(rows))


def write(path: Path, version: int, words: int, buckets: int, width: int, asked: Sequence[str]) -> None:
    """The file; the rows of `asked` are random, all others zero."""
    rng = np.random.default_rng(version)
    with atomic_write(path, "wb") as handle:
        handle.write(struct.pack("<ii", MAGIC, version))
        numbers = (width, 5, 5, 1, 5, 1, NEGATIVE_SAMPLING, SKIPGRAM, buckets, MIN_N, MAX_N, 100)
        handle.write(struct.pack("<12id", *numbers, 1e-4))
        handle.write(struct.pack("<iiiqq", words, words, 0, words * (words + 1) // 2, -1))
        for entries in _entries(words):
            handle.write(entries)
        handle.write(struct.pack("<?qq", False, words + buckets, width))
        start = handle.tell()
        for row in _rows(words, buckets, asked).tolist():
            handle.seek(start + 4 * width * row)
            handle.write(rng.standard_normal(width).astype("<f4").tobytes())
        handle.seek(start + 4 * width * (words + buckets))
        handle.write(struct.pack("<?qq", False, words, width))
        handle.truncate(handle.tell() + 4 * width * words)
