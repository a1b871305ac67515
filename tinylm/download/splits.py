"""The corpus: three splits of cleaned stories, one JSON line per story.

**train**; **held_out**, a share of it; **evaluation**, the official validation split. A hash of the story's text
and the seed decides which train stories are held out, so copies of a story are on one side, and an additional
story moves no other. If the data has no evaluation split, the same hash reserves one, as large as held-out.
A train story that equals an evaluation story is dropped; case, punctuation and white space are ignored.
A corpus so small that the hash chooses none gives its smallest hash to held-out and the next one to evaluation.

With `held_out: tokens` all train stories are in train, in order, and stage vocab cuts their tokens: held_out is
empty here, and so is evaluation if the data has no such split.
"""

import contextlib
import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tinylm.base import paths
from tinylm.base.config import InputError
from tinylm.base.files import atomic_write, write_sums
from tinylm.download.clean_blocks import clean_block
from tinylm.download.in_order import map_in_order
from tinylm.download.rows import CleanBlock, chunks, peek
from tinylm.download.sources import Rows, Source, open_source
from tinylm.download.stories import SPLITS, DataSettings
from tinylm.host.progress import Progress
from tinylm.kernels.text.cleaning import LIBRARY

STORIES = Path(paths.STORIES)
HASH_RANGE = 1 << 64
SPLIT_BY = {
    "hash": "a hash of each story's text chose the held-out stories",
    "tokens": "all train stories stand in train, in order; stage vocab cuts their tokens",
}
TRAIN, HELD_OUT, EVALUATION, IN_EVALUATION, OVER_LIMIT = range(
    5
)  # where a story goes: SPLITS, or dropped
SMALL = 40_000  # too few stories to start processes or a compiler


@dataclass
class _Tally:
    """Counts of one split while it is written, and the hash of its file."""

    stories: int = 0
    words: int = 0
    bytes: int = 0
    log_prob: float | None = None
    sha256: Any = field(default_factory=hashlib.sha256)

    def add(self, block: CleanBlock, rows: np.ndarray) -> None:
        self.stories += len(rows)
        self.words += int(block.words[rows].sum())
        self.bytes += int(block.bytes[rows].sum())
        for log_prob in map(block.log_probs.__getitem__, rows.tolist()):
            if log_prob is not None:
                self.log_prob = (self.log_prob or 0.0) + log_prob

    def report(self) -> dict[str, Any]:
        known = {} if self.log_prob is None else {"log_prob_nats": round(self.log_prob, 6)}
        return {"stories": self.stories, "words": self.words, "bytes": self.bytes} | known


@dataclass(frozen=True)
class _Bounds:
    """A story whose hash is below `held_out` is held out, one between that and `evaluation` is for evaluation."""

    held_out: int
    evaluation: int

    def splits(self, places: np.ndarray) -> np.ndarray:
        """Index in SPLITS of each story."""
        held_out, evaluated = places < np.uint64(self.held_out), places < np.uint64(self.evaluation)
        return np.where(held_out, HELD_OUT, np.where(evaluated, EVALUATION, TRAIN))


class _How(NamedTuple):
    """How the work is done; this changes no byte."""

    workers: int
    every_s: float


class _TooSmall(Exception):
    """The hash left a split empty; carries the two smallest hashes seen, fewer if there are fewer stories."""

    def __init__(self, smallest: list[int]):
        self.smallest = smallest


@dataclass
class _Writer:
    """One pass over the source into the open files of the three splits."""

    settings: DataSettings
    handles: dict[str, Any]
    workers: int
    progress: Progress
    tallies: dict[str, _Tally] = field(
        default_factory=lambda: {split: _Tally() for split in SPLITS}
    )
    dropped: dict[str, int] = field(
        default_factory=lambda: {"empty": 0, "in_evaluation": 0, "over_limit": 0}
    )
    evaluated: set[bytes] = field(default_factory=set)
    smallest: list[int] = field(default_factory=list)

    def blocks(self, source: Rows, limit: int | None) -> Iterator[CleanBlock]:
        """The stories that are not empty; cleaned by the workers if there are many."""
        parts, many = chunks(source), False
        if limit is None or limit > SMALL:
            parts, many = peek(parts)
        workers = self.workers if many else 1
        clean = functools.partial(
            clean_block, settings=self.settings, compiled=many and LIBRARY.is_at_hand()
        )
        with contextlib.closing(map_in_order(clean, parts, workers)) as found:
            yield from found

    def note(self, block: CleanBlock, rows: int, last: bool) -> None:
        """Count this many of a block's rows, with the empty stories before them; last: no more are needed."""
        read = int(block.raw[rows - 1]) + 1 if last else block.read
        self.dropped["empty"] += read - rows
        self.progress.advance(read)

    def put(self, split: int, block: CleanBlock, rows: np.ndarray) -> None:
        """Write these rows of a block, adjacent rows together."""
        name, lines = SPLITS[split], memoryview(block.lines)
        for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if len(rows) else ():
            first = int(block.ends[run[0] - 1]) if run[0] else 0
            content = lines[first : int(block.ends[run[-1]])]
            self.handles[name].write(content)
            self.tallies[name].sha256.update(content)
        self.tallies[name].add(block, rows)

    def write_evaluation(self, source: Rows) -> None:
        limit, tally = self.settings.evaluation_stories, self.tallies["evaluation"]
        for block in self.blocks(source, limit):
            rows = len(block.raw) if limit is None else min(len(block.raw), limit - tally.stories)
            self.note(block, rows, tally.stories + rows == limit)
            self.evaluated.update(block.bare[:rows])
            self.put(EVALUATION, block, np.arange(rows))
            if tally.stories == limit:
                return

    def write_train(self, source: Rows, bounds: _Bounds) -> None:
        wanted, limit = self.settings.train_stories, self.settings.evaluation_stories
        kept = 0
        for block in self.blocks(source, wanted):
            splits = bounds.splits(block.places)
            if self.evaluated:
                splits[[bare in self.evaluated for bare in block.bare]] = IN_EVALUATION
            if limit is not None:
                room = limit - self.tallies["evaluation"].stories
                splits[(splits == EVALUATION) & (np.cumsum(splits == EVALUATION) > room)] = (
                    OVER_LIMIT
                )
            kept_here = np.cumsum((splits == TRAIN) | (splits == HELD_OUT))
            if wanted is not None:
                splits = splits[: int(np.searchsorted(kept_here, wanted - kept)) + 1]
            kept += int(kept_here[len(splits) - 1]) if len(splits) else 0
            self.note(block, len(splits), kept == wanted)
            known = np.unique(block.places[: len(splits)][splits != IN_EVALUATION])[:2].tolist()
            self.smallest = sorted({*self.smallest, *known})[:2]
            self.dropped["in_evaluation"] += int((splits == IN_EVALUATION).sum())
            self.dropped["over_limit"] += int((splits == OVER_LIMIT).sum())
            for split in (TRAIN, HELD_OUT, EVALUATION):
                self.put(split, block, np.flatnonzero(splits == split))
            if kept == wanted:
                return


def _write(
    settings: DataSettings, source: Source, folder: Path, bounds: _Bounds, how: _How
) -> dict[str, Any]:
    """One pass; raises _TooSmall, and leaves the folder as it was, if a split stays empty that should not."""
    with contextlib.ExitStack() as stack:
        handles = {
            split: stack.enter_context(atomic_write(folder / f"{split}.jsonl", "wb"))
            for split in SPLITS
        }
        progress = stack.enter_context(
            Progress("stories", settings.train_stories, "stories", how.every_s)
        )
        writer = _Writer(settings, handles, how.workers, progress)
        if source.evaluation:
            writer.write_evaluation(source.evaluation())
            if not writer.evaluated:
                raise InputError(f"{source.name}: the evaluation split has no story with text")
        writer.write_train(source.train(), bounds)
        needed = SPLITS if settings.held_out == "hash" else ("train",)
        if not all(writer.tallies[split].stories for split in needed):
            raise _TooSmall(writer.smallest)
    write_sums(
        folder,
        {f"{split}.jsonl": tally.sha256.hexdigest() for split, tally in writer.tallies.items()},
    )
    splits = {split: tally.report() for split, tally in writer.tallies.items()}
    return source.description | {
        "split": SPLIT_BY[settings.held_out],
        "splits": splits,
        "dropped": writer.dropped,
    }


def _too_few(settings: DataSettings, source: Source, found: int) -> InputError:
    """The message for a corpus of fewer stories than splits."""
    needed = 2 if source.evaluation else 3
    is_text = settings.source == "local" and settings.path.lower().endswith((".txt", ".txt.gz"))
    parted = (
        "; in a text file a blank line or <|endoftext|> separates two stories" if is_text else ""
    )
    return InputError(
        f"{source.name}: too few different stories with text for three splits, {found}; allowed: at least {needed} in "
        f"train that do not occur in evaluation{parted}"
    )


def write_stories(
    settings: DataSettings, folder: str | Path = STORIES, workers: int = 1, every_s: float = 5.0
) -> dict[str, Any]:
    """Write {split}.jsonl for each split, one {"text": ..., "log_prob": if known} per line, as the data is read.

    Returns the source, stories, words and bytes of each split, for the storybook the sum of log_prob in nats, and
    how many stories were dropped. Raises InputError naming file and line; then nothing is written.
    """
    source, how = open_source(settings), _How(workers, every_s)
    if settings.held_out == "tokens":
        try:
            return _write(settings, source, Path(folder), _Bounds(0, 0), how)
        except _TooSmall:
            raise InputError(
                f"{source.name}: every train story with text also occurs in evaluation"
            ) from None
    share = int(settings.held_out_share * HASH_RANGE)
    bounds = _Bounds(share, share if source.evaluation else 2 * share)
    try:
        return _write(settings, source, Path(folder), bounds, how)
    except _TooSmall as small:
        refused = _too_few(settings, source, len(small.smallest))
        if len(small.smallest) < 2:
            raise refused from None
        first, second = small.smallest
    try:
        bounds = _Bounds(first + 1, first + 1 if source.evaluation else second + 1)
        return _write(settings, source, Path(folder), bounds, how)
    except _TooSmall:
        raise refused from None
