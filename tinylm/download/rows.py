"""Raw stories become lines of the corpus, independently of each other, so that any process may do it.

For ASCII text, and text without anything to delete, each step has a shortcut that gives the same bytes.
"""

import hashlib
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tinylm.download.cleaning import clean_text
from tinylm.download.marked_text import TextPart
from tinylm.download.sources import Row, Rows
from tinylm.download.stories import DataSettings

CHUNK = 1 << 22  # characters of raw text in a chunk
FEW = 8  # chunks
Part = list[Row] | TextPart
_NO_LETTER = re.compile(r"[\W_]+")
_LOWER = bytes(code + 32 if chr(code).isupper() else code for code in range(128)) + bytes(
    range(128, 256)
)
_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalnum())


class CleanRow(NamedTuple):
    """A story as stored in the corpus; place: 64 bits of the hash of its words and the seed; bare: see `bare_hash`."""

    line: bytes
    place: int
    bare: bytes
    words: int
    bytes: int
    log_prob: float | None


class CleanBlock(NamedTuple):
    """Many rows, without empty ones.

    lines: end to end; ends (n,): where each ends; raw (n,): its place among all stories read; read: how many were read.
    """

    lines: bytes
    ends: np.ndarray
    places: np.ndarray
    bare: list[bytes]
    words: np.ndarray
    bytes: np.ndarray
    log_probs: list[float | None]
    raw: np.ndarray
    read: int


def without_first_lines(text: str) -> str:
    """The text without the first line of each block between blank lines: the speakers of a play."""
    lines = text.split("\n")
    kept = [line for line, before in zip(lines, ["", *lines], strict=False) if before.strip()]
    return "\n".join(kept).strip()


def bare_hash(text: str) -> bytes:
    """Hash of a story's letters and digits, in lower case: equal if a tokenizer might not distinguish two stories."""
    if text.isascii():
        bare = text.encode().translate(_LOWER, _NO_LETTERS)
    else:
        bare = _NO_LETTER.sub("", text.casefold()).encode()
    return hashlib.blake2b(bare, digest_size=16).digest()


def spaced_words(text: str) -> str:
    """The words of a clean text with one space between them: " ".join(text.split())."""
    if not text.isascii():
        return " ".join(text.split())
    text = text.replace("\n", " ")  # the only other white space in clean ASCII
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def json_line(text: str, log_prob: float | None) -> bytes:
    """json.dumps(..., ensure_ascii=False) of a clean text, whose only control characters are line feeds."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    known = "" if log_prob is None else f', "log_prob": {log_prob!r}'
    return f'{{"text": "{escaped}"{known}}}\n'.encode()


def clean_row(raw: str, log_prob: float | None, settings: DataSettings) -> CleanRow | None:
    """The row of a raw story; None if it is empty."""
    text = clean_text(raw, settings.repair_quotes)
    if settings.drop_first_line:
        text = without_first_lines(text)
    if not text:
        return None
    words = spaced_words(text)
    key = hashlib.blake2b(f"{settings.seed}\n{words}".encode(), digest_size=16).digest()
    size = len(text) if text.isascii() else len(text.encode())
    place = int.from_bytes(key[:8], "big")
    return CleanRow(
        json_line(text, log_prob), place, bare_hash(text), words.count(" ") + 1, size, log_prob
    )


def block_of(rows: Sequence[CleanRow | None]) -> CleanBlock:
    """The rows, end to end."""
    kept = [row for row in rows if row is not None]
    return CleanBlock(
        b"".join([row.line for row in kept]),
        np.cumsum([len(row.line) for row in kept], dtype=np.int64),
        np.array([row.place for row in kept], np.uint64),
        [row.bare for row in kept],
        np.array([row.words for row in kept], np.int64),
        np.array([row.bytes for row in kept], np.int64),
        [row.log_prob for row in kept],
        np.array([number for number, row in enumerate(rows) if row is not None], np.int64),
        len(rows),
    )


def chunks(rows: Rows) -> Iterator[Part]:
    """The rows in lists of about CHUNK characters, parts unchanged; an error while reading is raised after all rows
    before it."""
    part: list[Row] = []
    size = 0
    try:
        for row in rows:
            if isinstance(row, TextPart):
                if part:
                    yield part
                    part, size = [], 0
                yield row
                continue
            part.append(row)
            size += len(row[0])
            if size >= CHUNK:
                yield part
                part, size = [], 0
    except Exception:
        if part:
            yield part
        raise
    if part:
        yield part


def peek(parts: Iterator[Part]) -> tuple[Iterator[Part], bool]:
    """The same parts, and whether there are FEW of them or more."""
    first: list[Part] = []
    try:
        first.extend(itertools.islice(parts, FEW))
    except Exception as error:
        return _failing(first, error), False
    return itertools.chain(first, parts), len(first) == FEW


def _failing(parts: list[Part], error: Exception) -> Iterator[Part]:
    yield from parts
    raise error
