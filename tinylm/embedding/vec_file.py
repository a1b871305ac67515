"""fastText's text format, `.vec` or `.vec.gz`: a line "count width", then one line per word with its numbers.

Read as a stream, keeping only the rows that the vocabulary needs, whatever the size of the file. Every row is
checked for its length, the number of its values, and values spelt nan or inf (any "n") or with an underscore.
Only rows that are kept are parsed, so other values that are not numbers ("x", 1e39) pass in the rest.
"""

import gzip
import math
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from tinylm.base.config import InputError

MAX_LINE_BYTES = 1 << 22


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else open(path, "rb")  # type: ignore[return-value]


def _header(handle: IO[bytes], path: Path, width: int) -> int:
    """The promised number of rows; InputError if the line is not a header or has another width."""
    line = handle.readline(MAX_LINE_BYTES).split()
    if len(line) != 2 or not all(part.isdigit() and len(part) < 12 for part in line):
        raise InputError(f"{path}, line 1: not the header of a .vec file; allowed: 'count width'")
    if int(line[1]) != width:
        raise InputError(
            f"{path}, line 1: vectors of width {int(line[1])}; embedding.width = {width}"
        )
    return int(line[0])


def check_vec(path: Path, width: int) -> None:
    """Raise InputError if the first line is not a header of this width; the rest is not read."""
    try:
        with _open(path) as handle:
            _header(handle, path, width)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: damaged or truncated gzip file ({error})") from None


def _rows(path: Path, width: int) -> Iterator[tuple[int, str, bytes]]:
    """(line number, word, its numbers as text) of each row; as many rows as the header promises, each of `width`."""
    number = 1
    try:
        with _open(path) as handle:
            promised = _header(handle, path, width)
            while line := handle.readline(MAX_LINE_BYTES):
                number += 1
                if len(line) == MAX_LINE_BYTES:
                    raise InputError(
                        f"{path}, line {number}: longer than {MAX_LINE_BYTES} bytes; not a .vec file's row"
                    )
                if number > promised + 1:
                    raise InputError(
                        f"{path}, line {number}: a row past the {promised} that line 1 promises"
                    )
                word, _, values = line.rstrip().partition(b" ")
                fields = values.count(b" ") + 1 if values else 0
                if fields != width:
                    raise InputError(
                        f"{path}, line {number}: {fields} values after the word; allowed: {width}"
                    )
                if b"n" in values or b"N" in values or b"_" in values:
                    raise InputError(
                        f"{path}, line {number}: holds a value that is not finite or not a plain number"
                    )
                yield number, word.decode("utf-8", "replace"), values
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{path}, after line {number}: damaged or truncated gzip file ({error})"
        ) from None
    if number <= promised:
        raise InputError(
            f"{path}, line {number}: the file ends after {number - 1} of the {promised} rows that line 1 promises; "
            "allowed: the whole file, or the right count in line 1"
        )


def _parse(values: bytes, path: Path, number: int) -> list[float]:
    try:
        row = [float(value) for value in values.split(b" ")]
    except ValueError as error:
        raise InputError(f"{path}, line {number}: {str(error)[:80]}; allowed: numbers") from None
    if not all(math.isfinite(value) and abs(value) < 1e30 for value in row):
        raise InputError(f"{path}, line {number}: holds a value that is not finite in float32")
    return row


def read_vec(path: Path, words: Sequence[str], table: np.ndarray, covered: np.ndarray) -> list[str]:
    """Fill `table` (len(words), D) and `covered` (len(words),); returns warnings, one line each.

    A word gets the file's row of that word or, as a fall-back, of the file's first word that differs from it only in
    upper and lower case ("Paris" for "paris", "the" for "The"). The first of equal words wins. Raises InputError
    with the line.
    """
    alike: dict[str, list[int]] = {}
    for index, word in enumerate(words):
        alike.setdefault(word.lower(), []).append(index)
    exact = np.zeros_like(covered)
    repeated = 0
    for number, word, values in _rows(path, table.shape[1]):
        for index in alike.get(word.lower(), ()):
            same = words[index] == word
            repeated += bool(same and exact[index])
            if exact[index] or (covered[index] and not same):
                continue
            table[index] = _parse(values, path, number)
            covered[index], exact[index] = True, same
    return [f"{path}: {repeated} rows repeat a word; the first of each is used"] if repeated else []
