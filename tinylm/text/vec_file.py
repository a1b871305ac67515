"""fastText's text format `.vec`: a line "count width", then a word and its numbers a line.

Read as a stream, keeping only the rows that the vocabulary needs, whatever the size of the file.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from tinylm.config import InputError
from tinylm.text.words import Tokenizer

MAX_LINE_BYTES = 1 << 22


def _header(handle: IO[bytes], path: Path, width: int) -> int:
    """The promised number of rows; InputError where the line is no header or has another width."""
    line = handle.readline(MAX_LINE_BYTES).split()
    if len(line) != 2 or not all(part.isdigit() and len(part) < 12 for part in line):
        binary = "; a .bin file is not read here" if path.suffix == ".bin" else ""
        raise InputError(f"{path}, line 1: not the header of a .vec file; allowed: 'count width'{binary}")
    if int(line[1]) != width:
        raise InputError(f"{path}, line 1: vectors of width {int(line[1])}; embedding.width = {width}")
    return int(line[0])


def _rows(handle: IO[bytes], path: Path, width: int) -> Iterator[tuple[int, str, bytes]]:
    """(line number, word, its numbers as text) of each row, with the right number of fields."""
    number = 1
    while line := handle.readline(MAX_LINE_BYTES):
        number += 1
        if len(line) == MAX_LINE_BYTES:
            raise InputError(f"{path}, line {number}: longer than {MAX_LINE_BYTES} bytes; not a row of a .vec file")
        word, _, values = line.rstrip().partition(b" ")
        fields = values.count(b" ") + 1 if values else 0
        if fields != width:
            raise InputError(f"{path}, line {number}: {fields} values after the word; allowed: {width}")
        yield number, word.decode("utf-8", "replace"), values


def _parse(values: bytes, path: Path, number: int) -> list[float]:
    try:
        row = [float(value) for value in values.split(b" ")]
    except ValueError as error:
        raise InputError(f"{path}, line {number}: {str(error)[:80]}; allowed: numbers") from None
    if not all(math.isfinite(value) and abs(value) < 1e30 for value in row):
        raise InputError(f"{path}, line {number}: holds a value that is not finite in float32")
    return row


def read_vectors(path: Path, tokenizer: Tokenizer, matrix: np.ndarray, covered: np.ndarray) -> list[str]:
    """Fill `matrix` (V, D) and `covered` (V,) from a file; returns warnings, one line each.

    A word is looked up as it stands; under a lower-case vocabulary a file's "Paris" serves "paris" where the file
    has no "paris". The first of equal words wins. Raises InputError with the line, and where no word is covered.
    """
    width = matrix.shape[1]
    exact = np.zeros_like(covered)
    repeated = rows = 0
    try:
        with open(path, "rb") as handle:
            promised = _header(handle, path, width)
            for number, word, values in _rows(handle, path, width):
                rows += 1
                index = tokenizer.id_of(word)
                if index is None and tokenizer.split.lower_case:
                    index = tokenizer.id_of(word.lower())
                    if index is not None and covered[index]:
                        continue
                elif index is not None:
                    repeated += bool(exact[index])
                    if exact[index]:
                        continue
                    exact[index] = True
                if index is not None:
                    matrix[index] = _parse(values, path, number)
                    covered[index] = True
    except OSError as error:
        raise InputError(f"embedding.path = {str(path)!r}: cannot be read: {error.strerror}") from None
    if not covered.any():
        raise InputError(f"{path}: of {len(covered)} vocabulary entries none is among its {rows} words")
    warnings = []
    if rows != promised:
        warnings.append(f"{path}: the header promises {promised} rows, {rows} are there; these are used")
    if repeated:
        warnings.append(f"{path}: {repeated} rows repeat a word; the first of each is used")
    return warnings
