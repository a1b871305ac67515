"""Raw stories become lines of the corpus, many at once: plain ASCII by a native kernel, others by `rows.clean_row`."""

from typing import Any

import numpy as np

from tinylm.download.marked_text import TextPart
from tinylm.download.readers import raw_stories, refuse_bad_line, stories_of
from tinylm.download.rows import CleanBlock, Part, block_of, clean_row
from tinylm.download.stories import DataSettings
from tinylm.kernels.text.cleaning import library

LINE_BYTES = len('{"text": ""}\n')
BARE_BYTES = 16


def clean_block(part: Part, settings: DataSettings, compiled: bool) -> CleanBlock:
    """The lines of raw stories in their order, with the facts about each; `compiled` changes no byte.

    Raises CannotCompile if it is set and there is no library.
    """
    if isinstance(part, TextPart):
        if compiled and not settings.drop_first_line:
            stories = [story for story in raw_stories(part) if story and not story.isspace()]
            try:
                return _by_compiled_code(stories, settings)
            except UnicodeDecodeError:
                refuse_bad_line(part.path)
        part = [(text, None) for text in stories_of(part)]
    elif (
        compiled and not settings.drop_first_line and all(log_prob is None for _, log_prob in part)
    ):
        return _by_compiled_code(
            [text.encode("utf-8", "surrogatepass") for text, _ in part], settings, "surrogatepass"
        )
    return block_of([clean_row(text, log_prob, settings) for text, log_prob in part])


def _by_compiled_code(
    stories: list[bytes], settings: DataSettings, errors: str = "strict"
) -> CleanBlock:
    """errors: what becomes of bytes that are not UTF-8."""
    content, prefix, count = b"".join(stories), f"{settings.seed}\n".encode(), len(stories)
    borders = np.cumsum([0, *map(len, stories)], dtype=np.int64)
    lines = np.empty(2 * len(content) + LINE_BYTES * count, np.uint8)
    places, bare = np.empty(count, np.uint64), np.empty((count, BARE_BYTES), np.uint8)
    sizes, words, size_of_text = (np.empty(count, np.int64) for _ in range(3))
    arrays = [array.ctypes.data for array in (lines, sizes, places, bare, words, size_of_text)]
    end = library().tinylm_clean(content, borders.ctypes.data, count, prefix, len(prefix), *arrays)
    written, kept = lines[:end].data, sizes > 0
    ends = np.cumsum(np.maximum(sizes, 0))
    hashes = [bare[number].tobytes() for number in range(count)]
    pieces: list[Any] = []  # bytes and views
    done = 0
    for number in np.flatnonzero(sizes < 0).tolist():  # not plain
        row = clean_row(stories[number].decode("utf-8", errors), None, settings)
        if row is not None:
            pieces += [written[done : ends[number]], row.line]
            done, kept[number] = int(ends[number]), True
            sizes[number], places[number], words[number] = len(row.line), row.place, row.words
            size_of_text[number], hashes[number] = row.bytes, row.bare
    raw = np.flatnonzero(kept)
    return CleanBlock(
        b"".join([*pieces, written[done:]]),
        np.cumsum(sizes[raw]),
        places[raw],
        [hashes[number] for number in raw.tolist()],
        words[raw],
        size_of_text[raw],
        [None] * len(raw),
        raw,
        count,
    )
