"""A text file with a mark between stories, in parts that different processes can read."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

END_OF_TEXT = b"<|endoftext|>"
SEEN = 1 << 16  # bytes searched at a time


class TextPart(NamedTuple):
    """Whole stories of a file: its bytes from `start` to `end`, after a mark or at the file's end."""

    path: Path
    start: int
    end: int


def _next_border(handle: IO[bytes], place: int, last: int) -> int:
    """The place after the first mark at `place` or later; if none begins before `last`, after what was searched."""
    handle.seek(place)
    seen = b""
    while place < last and (piece := handle.read(SEEN)):
        seen = seen[1 - len(END_OF_TEXT) :] + piece
        place += len(piece)
        found = seen.find(END_OF_TEXT)
        if found >= 0:
            return place - len(seen) + found + len(END_OF_TEXT)
    return place


def parts_of(path: Path, size: int, longest: int) -> Iterator[TextPart]:
    """The file in parts of `size` bytes, each extended to the end of its last story, by at most `longest` bytes."""
    start, whole = 0, os.path.getsize(path)
    with open(path, "rb") as handle:
        while start < whole:
            place = min(start + size, whole)
            end = _next_border(handle, place, place + longest + 1)
            yield TextPart(path, start, end)
            start = end
