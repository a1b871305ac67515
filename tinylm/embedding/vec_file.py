"""fastText's text format, `.vec` or `.vec.gz`: a line "count width", then a line per word.

Read as a stream, keeping only the rows that the vocabulary needs, whatever the size of the file.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tinylm.base.config import InputError
from tinylm.download.readers import raw_lines


def check_vec(path: Path, width: int) -> None:
    """Raise InputError if the first line is not a header of this width; the rest is not read."""
    _read_header(path, raw_lines(path), width)


def _read_header(path: Path, lines: Iterator[tuple[int, bytes]], width: int) -> int:
    """The promised number of rows. InputError if this is no header or of another width."""
    _, line = next(lines, (1, b""))
    numbers = line.split()
    if len(numbers) != 2 or not all(part.isdigit() and len(part) < 12 for part in numbers):
        raise InputError(f"{path}, line 1: not the header of a .vec file; allowed: 'count width'")
    rows, columns = map(int, numbers)
    if columns != width:
        raise InputError(f"{path}, line 1: vectors of width {columns}; embedding.width = {width}")
    return rows


def _rows(path: Path, width: int) -> Iterator[tuple[int, str, bytes]]:
    """(line number, word, its numbers as text): as many rows as promised, each of `width`."""
    lines = raw_lines(path)
    promised = _read_header(path, lines, width)
    number = 1
    for number, line in lines:
        word, _, values = line.rstrip().partition(b" ")
        columns = values.count(b" ") + 1
        if columns != width or not values:
            raise InputError(f"{path}, line {number}: allowed: a word and {width} values")
        yield number, word.decode("utf-8", "replace"), values
    if number != promised + 1:
        raise InputError(
            f"{path}, line {number}: the last line; line 1 promises {promised} rows; allowed: the "
            "whole file, or the right count in line 1"
        )


def _parse(values: bytes, path: Path, number: int) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):
            row = np.array([float(value) for value in values.split(b" ")]).astype(np.float32)
        if np.isfinite(row).all():
            return row
    except ValueError:
        pass
    raise InputError(f"{path}, line {number}: allowed: numbers that are finite in float32")


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
