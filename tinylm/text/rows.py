"""Raw stories made into rows of the corpus, many at a time: what may run in any process.

For ASCII text, and text without anything to delete, each step has a short way that gives the same bytes.
"""

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tinylm.text.cleaning import clean_text
from tinylm.text.data_settings import DataSettings
from tinylm.text.sources import Row

CHUNK = 1 << 22  # characters of raw text in a chunk
FEW = 8  # chunks
_NO_LETTER = re.compile(r"[\W_]+")
_LOWER = bytes(code + 32 if chr(code).isupper() else code for code in range(128)) + bytes(range(128, 256))
_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalnum())


class CleanRow(NamedTuple):
    """A story as the corpus keeps it; place: 64 bits of the hash of its words and the seed; bare: see `bare_hash`."""

    line: bytes
    place: int
    bare: bytes
    words: int
    bytes: int
    log_prob: float | None


def without_first_lines(text: str) -> str:
    """The text without the first line of each block of lines between blank ones: the speakers of a play."""
    lines = text.split("\n")
    kept = [line for line, before in zip(lines, ["", *lines], strict=False) if before.strip()]
    return "\n".join(kept).strip()


def bare_hash(text: str) -> bytes:
    """Hash of a story's letters and digits, in lower case: equal where a tokenizer may see two stories as one."""
    if text.isascii():
        bare = text.encode().translate(_LOWER, _NO_LETTERS)
    else:
        bare = _NO_LETTER.sub("", text.casefold()).encode()
    return hashlib.blake2b(bare, digest_size=16).digest()


def spaced_words(text: str) -> str:
    """The words of a clean text with one space between them: " ".join(text.split())."""
    if not text.isascii():
        return " ".join(text.split())
    text = text.replace("\n", " ")  # the only other white space that is left in clean ASCII
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def json_line(text: str, log_prob: float | None) -> bytes:
    """json.dumps(..., ensure_ascii=False) of a clean text, whose only control characters are line feeds."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    known = "" if log_prob is None else f', "log_prob": {log_prob!r}'
    return f'{{"text": "{escaped}"{known}}}\n'.encode()


def clean_rows(rows: Iterable[Row], settings: DataSettings) -> list[CleanRow | None]:
    """The rows of raw stories, in their order; None where a story is empty."""
    prefix = f"{settings.seed}\n".encode()
    found: list[CleanRow | None] = []
    for raw, log_prob in rows:
        text = clean_text(raw, settings.repair_quotes)
        if settings.drop_first_line:
            text = without_first_lines(text)
        if not text:
            found.append(None)
            continue
        words = spaced_words(text)
        key = hashlib.blake2b(prefix + words.encode(), digest_size=16).digest()
        place = int.from_bytes(key[:8], "big")
        size = len(text) if text.isascii() else len(text.encode())
        found.append(CleanRow(json_line(text, log_prob), place, bare_hash(text), words.count(" ") + 1, size, log_prob))
    return found


def chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows in lists of about CHUNK characters; what reading raises comes behind all rows before it."""
    part: list[Row] = []
    size = 0
    try:
        for row in rows:
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


def peek(parts: Iterator[list[Row]], workers: int) -> tuple[Iterator[list[Row]], int]:
    """The same chunks, and how many workers they are worth: one where there are fewer than FEW."""
    first: list[list[Row]] = []
    try:
        first.extend(itertools.islice(parts, FEW))
    except Exception as error:
        return _failing(first, error), 1
    return itertools.chain(first, parts), workers if len(first) == FEW else 1


def _failing(parts: list[list[Row]], error: Exception) -> Iterator[list[Row]]:
    yield from parts
    raise error
