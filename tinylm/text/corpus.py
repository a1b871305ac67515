"""The corpus: three splits of cleaned stories, one JSON line a story.

**train**; **held_out**, a share of it; **evaluation**, the official validation split. A hash of the story's text
and the seed decides which train stories are held out, so that copies of a story fall on one side and a story
more moves no other. Where the data has no evaluation split, the same hash sets one apart, as large as held-out.
A train story that equals an evaluation story is dropped; case, punctuation and white space do not count.
A corpus so small that the hash chooses none gives its smallest hash to held-out and the next one to evaluation.

With `held_out: tokens` all train stories stand in train, in order, and stage vocab cuts their tokens: held_out is
empty here, and evaluation too where the data has no such split.
"""

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tinylm.config import InputError
from tinylm.files import atomic_write, write_sums
from tinylm.runtime import Progress
from tinylm.text.data_settings import DataSettings
from tinylm.text.rows import CleanRow, chunks, clean_rows, peek
from tinylm.text.sources import Row, Source, open_source
from tinylm.text.stories import SPLITS
from tinylm.workers import map_in_order

STORIES = Path("data/stories")
HASH_RANGE = 1 << 64
SPLIT_BY = {
    "hash": "a hash of each story's text chose the held-out stories",
    "tokens": "all train stories stand in train, in order; stage vocab cuts their tokens",
}
SMALL = 40_000  # stories that are not worth the start of a process


@dataclass
class _Tally:
    """Counts of one split as it is written."""

    stories: int = 0
    words: int = 0
    bytes: int = 0
    log_prob: float | None = None

    def add(self, row: CleanRow) -> None:
        self.stories += 1
        self.words += row.words
        self.bytes += row.bytes
        if row.log_prob is not None:
            self.log_prob = (self.log_prob or 0.0) + row.log_prob

    def report(self) -> dict[str, Any]:
        known = {} if self.log_prob is None else {"log_prob_nats": round(self.log_prob, 6)}
        return {"stories": self.stories, "words": self.words, "bytes": self.bytes} | known


@dataclass(frozen=True)
class _Bounds:
    """A story whose hash is below `held_out` is held out, one between that and `evaluation` is evaluated on."""

    held_out: int
    evaluation: int

    def split(self, place: int) -> str:
        return "held_out" if place < self.held_out else "evaluation" if place < self.evaluation else "train"


class _How(NamedTuple):
    """How the work is done, which changes no byte."""

    workers: int
    every_s: float


class _TooSmall(Exception):
    """The hash left a split empty; carries the two smallest hashes seen, fewer where there are fewer stories."""

    def __init__(self, smallest: list[int]):
        self.smallest = smallest


@dataclass
class _Writer:
    """One pass over the source into the open files of the three splits."""

    settings: DataSettings
    handles: dict[str, Any]
    workers: int
    progress: Progress
    tallies: dict[str, _Tally] = field(default_factory=lambda: {split: _Tally() for split in SPLITS})
    dropped: dict[str, int] = field(default_factory=lambda: {"empty": 0, "in_evaluation": 0, "over_limit": 0})
    evaluated: set[bytes] = field(default_factory=set)
    smallest: list[int] = field(default_factory=list)

    def rows(self, source: Iterable[Row], limit: int | None) -> Iterator[CleanRow]:
        """The stories that are not empty; cleaned by the workers where there are many."""
        parts, workers = chunks(source), 1
        if limit is None or limit > SMALL:
            parts, workers = peek(parts, self.workers)
        clean = functools.partial(clean_rows, settings=self.settings)
        with contextlib.closing(map_in_order(clean, parts, workers)) as found:
            for row in itertools.chain.from_iterable(found):
                self.progress.advance(1)
                if row is None:
                    self.dropped["empty"] += 1
                else:
                    yield row

    def put(self, split: str, row: CleanRow) -> None:
        self.handles[split].write(row.line)
        self.tallies[split].add(row)

    def write_evaluation(self, source: Iterable[Row]) -> None:
        limit = self.settings.evaluation_stories
        for row in itertools.islice(self.rows(source, limit), limit):
            self.evaluated.add(row.bare)
            self.put("evaluation", row)

    def write_train(self, source: Iterable[Row], bounds: _Bounds) -> None:
        kept = 0
        for row in self.rows(source, self.settings.train_stories):
            split = bounds.split(row.place)
            if row.bare in self.evaluated:
                self.dropped["in_evaluation"] += 1
                continue
            if len(self.smallest) < 2 or row.place < self.smallest[1]:
                self.smallest = sorted({*self.smallest, row.place})[:2]
            if split == "evaluation":
                limit = self.settings.evaluation_stories
                if limit is not None and self.tallies["evaluation"].stories >= limit:
                    self.dropped["over_limit"] += 1
                    continue
            else:
                kept += 1
            self.put(split, row)
            if kept == self.settings.train_stories:
                return


def _write(settings: DataSettings, source: Source, folder: Path, bounds: _Bounds, how: _How) -> dict[str, Any]:
    """One pass; raises _TooSmall, and leaves the folder as it was, where a split stays empty that should not."""
    with contextlib.ExitStack() as stack:
        handles = {split: stack.enter_context(atomic_write(folder / f"{split}.jsonl", "wb")) for split in SPLITS}
        progress = stack.enter_context(Progress("stories", settings.train_stories, "stories", how.every_s))
        writer = _Writer(settings, handles, how.workers, progress)
        if source.evaluation:
            writer.write_evaluation(source.evaluation())
            if not writer.evaluated:
                raise InputError(f"{source.name}: the evaluation split holds no story with text")
        writer.write_train(source.train(), bounds)
        needed = SPLITS if settings.held_out == "hash" else ("train",)
        if not all(writer.tallies[split].stories for split in needed):
            raise _TooSmall(writer.smallest)
    write_sums(folder)
    splits = {split: tally.report() for split, tally in writer.tallies.items()}
    return source.description | {"split": SPLIT_BY[settings.held_out], "splits": splits, "dropped": writer.dropped}


def write_stories(
    settings: DataSettings, folder: str | Path = STORIES, workers: int = 1, every_s: float = 5.0
) -> dict[str, Any]:
    """Write {split}.jsonl for each split, one {"text": ..., "log_prob": where known} a line, as the data streams by.

    Returns the source, stories, words and bytes of each split, for the storybook the sum of log_prob in nats, and
    how many stories were dropped. Raises InputError naming file and line; then nothing is written.
    """
    source, how = open_source(settings), _How(workers, every_s)
    if settings.held_out == "tokens":
        try:
            return _write(settings, source, Path(folder), _Bounds(0, 0), how)
        except _TooSmall:
            raise InputError(f"{source.name}: no train story with text that does not stand in evaluation") from None
    share = int(settings.held_out_share * HASH_RANGE)
    bounds = _Bounds(share, share if source.evaluation else 2 * share)
    try:
        return _write(settings, source, Path(folder), bounds, how)
    except _TooSmall as small:
        needed = 2 if source.evaluation else 3
        refused = InputError(
            f"{source.name}: too few different stories with text for three splits; allowed: at least {needed} in train "
            "that do not stand in evaluation"
        )
        if len(small.smallest) < 2:
            raise refused from None
        first, second = small.smallest
    try:
        bounds = _Bounds(first + 1, first + 1 if source.evaluation else second + 1)
        return _write(settings, source, Path(folder), bounds, how)
    except _TooSmall:
        raise refused from None
