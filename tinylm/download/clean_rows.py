"""Raw stories as rows of the corpus: cleaned, with hashes that decide the split and identify copies."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tinylm.base.parallel import in_groups, map_in_order
from tinylm.download.settings import DataSettings
from tinylm.download.source import Row
from tinylm.text.cleaning import clean_text
from tinylm.text.same_story import bare_text

CHUNK_ROWS = 2000  # stories that a process cleans at a time


class CleanRow(NamedTuple):
    """A story as stored in the corpus.

    line: JSON; side: hash of the bare text and the seed, which decides the split; form: hash of the
    text or the bare text, equal if stories are the same (`same_story`); words: their number;
    log_prob: in nats, if there is one.
    """

    line: bytes
    side: bytes
    form: bytes
    words: int
    log_prob: float | None


def without_first_lines(text: str) -> str:
    """The text without the first line of each block between blank lines: the speakers of a play."""
    lines = text.split("\n")
    previous = ["", *lines]
    others = [line for line, before in zip(lines, previous, strict=False) if before.strip()]
    return "\n".join(others).strip()


def clean_row(
    text: str, log_prob: float | None, settings: DataSettings, exact: bool = False
) -> CleanRow | None:
    """The row of a raw story; None if it is empty.

    exact: compare the texts themselves, not their bare texts.
    """
    text = clean_text(text)
    if settings.drop_first_line:
        text = without_first_lines(text)
    bare = bare_text(text)
    form = text.encode() if exact else bare
    if not form:
        return None
    story: dict[str, str | float] = {"text": text}
    if log_prob is not None:
        story["log_prob"] = log_prob
    decides = f"{settings.seed}\n".encode() + (bare or form)
    return CleanRow(
        line=(json.dumps(story, ensure_ascii=False) + "\n").encode(),
        side=hashlib.blake2b(decides, digest_size=16).digest(),
        form=hashlib.blake2b(form, digest_size=16).digest(),
        words=len(text.split()),
        log_prob=log_prob,
    )


def clean_rows(
    rows: Iterator[Row], settings: DataSettings, workers: int, exact: bool
) -> Iterator[list[CleanRow | None]]:
    """The rows in order and in groups, cleaned by several processes if there are many."""
    groups = in_groups(rows, CHUNK_ROWS)
    yield from map_in_order(_clean_group, groups, workers, settings, exact)


def _clean_group(rows: Sequence[Row], settings: DataSettings, exact: bool) -> list[CleanRow | None]:
    return [clean_row(text, log_prob, settings, exact) for text, log_prob in rows]
