"""fastText's text format, `.vec` or `.vec.gz`: a line "count width", then a line per word.

Read as a stream, keeping only the rows that the vocabulary needs, whatever the size of the file.
The numbers of every row are counted; those of kept rows must be finite in float32.
"""

import gzip
import math
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tinylm.base.config import InputError

MAX_LINE_BYTES = 1 << 22
LARGEST = 1e30


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number, line) of a plain or gzip file. Raises InputError if it is damaged."""
    number = 0
    is_gzip = path.suffix.lower() == ".gz"
    try:
        with gzip.open(path) if is_gzip else open(path, "rb") as handle:
            while line := handle.readline(MAX_LINE_BYTES):
                number += 1
                if len(line) == MAX_LINE_BYTES:
                    raise InputError(f"{path}, line {number}: longer than {MAX_LINE_BYTES} bytes")
                yield number, line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}, after line {number}: damaged gzip file ({error})") from None


def _read_header(path: Path, line: bytes, width: int) -> int:
    """The promised number of rows. InputError if this is no header or of another width."""
    numbers = line.split()
    if len(numbers) != 2 or not all(part.isdigit() and len(part) < 12 for part in numbers):
        raise InputError(f"{path}, line 1: not the header of a .vec file; allowed: 'count width'")
    rows, columns = map(int, numbers)
    if columns != width:
        raise InputError(f"{path}, line 1: vectors of width {columns}; embedding.width = {width}")
    return rows


def check_vec(path: Path, width: int) -> None:
    """Raise InputError if the first line is not a header of this width; the rest is not read."""
    _, line = next(_lines(path), (1, b""))
    _read_header(path, line, width)


def _rows(path: Path, width: int) -> Iterator[tuple[int, str, bytes]]:
    """(line number, word, its numbers as text): as many rows as promised, each of `width`."""
    lines = _lines(path)
    number, header = next(lines, (1, b""))
    promised = _read_header(path, header, width)
    for number, line in lines:
        word, _, values = line.rstrip().partition(b" ")
        columns = values.count(b" ") + 1 if values else 0
        if columns != width:
            raise InputError(
                f"{path}, line {number}: {columns} values after the word; allowed: {width}"
            )
        yield number, word.decode("utf-8", "replace"), values
    if number != promised + 1:
        raise InputError(
            f"{path}, line {number}: the last line; line 1 promises {promised} rows; allowed: the "
            "whole file, or the right count in line 1"
        )


def _parse(values: bytes, path: Path, number: int) -> list[float]:
    try:
        row = [float(value) for value in values.split(b" ")]
    except ValueError as error:
        raise InputError(f"{path}, line {number}: {str(error)[:80]}; allowed: numbers") from None
    if not all(math.isfinite(value) and abs(value) < LARGEST for value in row):
        raise InputError(f"{path}, line {number}: a value is not finite in float32")
    return row


def read_vec(path: Path, words: Sequence[str], table: np.ndarray, covered: np.ndarray) -> None:
    """Fill `table` (len(words), D) and `covered` (len(words),). Raises InputError with the line.

    A word gets the file's row of that word or, as a fall-back, of the file's first word that
    differs from it only in upper and lower case ("Paris" for "paris", "the" for "The"). The first
    of equal words wins.
    """
    same_letters: dict[str, list[int]] = {}
    for index, word in enumerate(words):
        same_letters.setdefault(word.lower(), []).append(index)
    exact = np.zeros_like(covered)
    for number, word, values in _rows(path, table.shape[1]):
        for index in same_letters.get(word.lower(), ()):
            same = words[index] == word
            if exact[index] or (covered[index] and not same):
                continue
            table[index] = _parse(values, path, number)
            covered[index] = True
            exact[index] = same
