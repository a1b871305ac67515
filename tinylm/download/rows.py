"""Raw stories become lines of the corpus, each by itself, so that any process may do it."""

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

from tinylm.download.cleaning import clean_text
from tinylm.download.same_story import bare_text
from tinylm.download.stories import DataSettings

Row = tuple[str, float | None]  # text, natural log of its probability if it has one


class CleanRow(NamedTuple):
    """A story as stored in the corpus.

    line: JSON; key: hash of the bare text and the seed, which decides the split and is equal if
    stories are the same by `same_story`; words: their number; log_prob: in nats, if there is one.
    """

    line: bytes
    key: bytes
    words: int
    log_prob: float | None


def without_first_lines(text: str) -> str:
    """The text without the first line of each block between blank lines: the speakers of a play."""
    lines = text.split("\n")
    previous = ["", *lines]
    others = [line for line, before in zip(lines, previous, strict=False) if before.strip()]
    return "\n".join(others).strip()


def clean_row(text: str, log_prob: float | None, settings: DataSettings) -> CleanRow | None:
    """The row of a raw story; None if it has no bare word."""
    text = clean_text(text, settings.repair_quotes)
    if settings.drop_first_line:
        text = without_first_lines(text)
    bare = bare_text(text)
    if not bare:
        return None
    story: dict[str, str | float] = {"text": text}
    if log_prob is not None:
        story["log_prob"] = log_prob
    seeded = f"{settings.seed}\n".encode() + bare
    return CleanRow(
        line=(json.dumps(story, ensure_ascii=False) + "\n").encode(),
        key=hashlib.blake2b(seeded, digest_size=16).digest(),
        words=len(text.split()),
        log_prob=log_prob,
    )


def clean_chunk(rows: Sequence[Row], settings: DataSettings) -> list[CleanRow | None]:
    """`clean_row` of each."""
    return [clean_row(text, log_prob, settings) for text, log_prob in rows]
