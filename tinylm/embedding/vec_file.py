"""fastText's text format, `.vec` or `.vec.gz`: a line "count width", then a line per word.

The file is read as a stream, and only the rows that the vocabulary needs are stored.
"""

import gzip
import zlib
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tinylm.base.config import InputError
from tinylm.download.readers import first_line


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number, line) of a plain or gzip file. Raises InputError if it is damaged."""
    number = 0
    is_gzip = path.name.lower().endswith(".gz")
    try:
        with gzip.open(path) if is_gzip else open(path, "rb") as handle:
            for number, line in enumerate(handle, start=1):
                yield number, line
    except (EOFError, OSError, zlib.error) as error:
        reason = first_line(error)
        raise InputError(f"{path}, after line {number}: cannot be read ({reason})") from None


def check_vec(path: Path, width: int) -> None:
    """Raise InputError for a wrong header; reads no row."""
    _read_header(path, raw_lines(path), width)


def _read_header(path: Path, lines: Iterator[tuple[int, bytes]], width: int) -> int:
    """The promised number of rows. InputError if this is no header or of another width."""
    _, line = next(lines, (1, b""))
    try:
        rows, columns = map(int, line.removeprefix(BOM_UTF8).split())
    except ValueError:
        raise InputError(f"{path}, line 1: not a header; allowed: 'count width'") from None
    if columns != width:
        raise InputError(f"{path}, line 1: vectors of width {columns}; embedding.width = {width}")
    return rows


def read_vec(path: Path, words: Sequence[str], width: int) -> np.ndarray:
    """(len(words), D) float32, zero where the file has no vector. Raises InputError with the line.

    A word gets the file's first row of that word. If there is none, it gets the first row of a word
    that differs only in upper and lower case ("Paris" for "paris", "the" for "The").
    """
    wanted: dict[str, list[str]] = defaultdict(list)
    for word in words:
        wanted[word.lower()].append(word)
    exact: dict[str, np.ndarray] = {}
    in_other_case: dict[str, np.ndarray] = {}
    lines = raw_lines(path)
    promised = _read_header(path, lines, width)
    number = 1
    for number, line in lines:
        line = line.rstrip()
        if line.count(b" ") != width:
            raise InputError(f"{path}, line {number}: allowed: a word and {width} values")
        first, *values = line.split(b" ")
        word = first.decode("utf-8", "replace")
        for target in wanted.get(word.lower(), ()):
            vectors = exact if target == word else in_other_case
            if target not in vectors and target not in exact:
                vectors[target] = _parse(values, path, number)
    if number != promised + 1:
        raise InputError(f"{path}, line {number}: the last one; line 1 promises {promised} rows")
    table = np.zeros((len(words), width), np.float32)
    vectors = in_other_case | exact
    for row, word in enumerate(words):
        if word in vectors:
            table[row] = vectors[word]
    return table


def _parse(values: list[bytes], path: Path, number: int) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):
            row = np.array([float(value) for value in values]).astype(np.float32)
    except ValueError:
        row = np.full(1, np.nan)
    if not np.isfinite(row).all():
        raise InputError(f"{path}, line {number}: allowed: numbers that are finite in float32")
    return row
