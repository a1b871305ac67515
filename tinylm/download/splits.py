"""The corpus: three splits of cleaned stories, one JSON line per story.

**train**; **held_out**, a share of it; **evaluation**, the official validation split. A hash of the
bare story and the seed decides which train stories are held out. So copies are on one side, an
additional story moves no other, and runs with different tokenizers have the same splits. If the data
has no evaluation split, the same hash reserves one, as large as held-out. A train story that is the
same as an official evaluation story is dropped (`same_story`). Near-copies stay.

With `held_out: tokens` all train stories are in train, in order, and stage vocab cuts their tokens:
held_out is empty here, and so is evaluation if the data has no such split.
"""

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.files import atomic_write
from tinylm.base.progress import Progress
from tinylm.download.clean_rows import CleanRow, clean_rows
from tinylm.download.settings import DataSettings
from tinylm.download.source import open_source
from tinylm.text.stories import SPLITS

HASH_RANGE = 1 << 64  # of a side's first eight bytes


class Tally:
    """Counts where each story goes.

    splits: {split: its stories, words and, if its stories have one, the sum of log_prob in nats}.
    dropped: {reason: stories that are in no split}. read_first: {role: limit} where more stories
    follow than the settings read.
    """

    def __init__(self) -> None:
        self.splits: dict[str, dict[str, float]] = {
            split: {"stories": 0, "words": 0} for split in SPLITS
        }
        self.dropped = Counter(empty=0, in_evaluation=0)
        self.read_first: dict[str, int] = {}

    def add(self, split: str, row: CleanRow) -> None:
        """Count a story of a split."""
        counts = self.splits[split]
        counts["stories"] += 1
        counts["words"] += row.words
        if row.log_prob is not None:
            counts["log_prob_nats"] = counts.get("log_prob_nats", 0.0) + row.log_prob

    def stories(self, *splits: str) -> int:
        """The number of stories in these splits so far."""
        return sum(int(self.splits[split]["stories"]) for split in splits)

    def report(self) -> dict[str, Any]:
        """The counts as data/figures/download.json has them."""
        rounded = {
            split: {name: round(number, 6) for name, number in counts.items()}
            for split, counts in self.splits.items()
        }
        report: dict[str, Any] = {"splits": rounded, "dropped": dict(self.dropped)}
        if self.read_first:
            report["read_first"] = self.read_first
        return report


def split_of(side: bytes, held_out: float, evaluation: float) -> str:
    """The split of a train story, by its side alone; held_out, evaluation: the shares of these splits.

    Sides are uniform: the lowest are held out, the next ones are evaluation.
    """
    if side < _side_at(held_out):
        return "held_out"
    if side < _side_at(held_out + evaluation):
        return "evaluation"
    return "train"


def _side_at(share: float) -> bytes:
    """The side below which this share of all sides lies."""
    return int(share * HASH_RANGE).to_bytes(8, "big")


def _evaluation_rows(
    rows: Iterator[CleanRow], settings: DataSettings, tally: Tally
) -> Iterator[CleanRow]:
    """The stories of an official evaluation split, as many as the settings allow."""
    _, limit = settings.limits()
    most = None if limit is None else min(limit, sys.maxsize)  # islice takes no larger number
    for row in islice(rows, most):
        tally.add("evaluation", row)
        yield row
    if limit is not None and next(rows, None) is not None:
        tally.read_first["evaluation"] = limit


def _assign(
    rows: Iterator[CleanRow], settings: DataSettings, evaluation_forms: set[bytes], tally: Tally
) -> Iterator[tuple[str, CleanRow]]:
    """(split, story) for each train story that is stored.

    evaluation_forms: the forms of the official evaluation split; empty if the data has none.
    """
    train_limit, evaluation_limit = settings.limits()
    held_out = settings.held_out_share if settings.held_out == "hash" else 0.0
    evaluation = 0.0 if evaluation_forms else held_out
    for row in rows:
        trained = tally.stories("train", "held_out")
        if trained == train_limit:
            tally.read_first["train"] = trained
            return
        split = split_of(row.side, held_out, evaluation)
        if row.form in evaluation_forms:
            tally.dropped["in_evaluation"] += 1
        elif split == "evaluation" and tally.stories("evaluation") == evaluation_limit:
            tally.dropped["beyond_evaluation_stories"] += 1
        else:
            tally.add(split, row)
            yield split, row


def write_stories(
    settings: DataSettings,
    folder: str | Path = paths.STORIES,
    workers: int = 1,
    exact: bool = False,
) -> dict[str, Any]:
    """Write {split}.jsonl: {"text": ...} per line, with "log_prob" if there is one.

    Returns the source with its files and those that are not read, the number of dropped stories by
    reason, where the settings end the reading early and, for each split, its stories, words and the
    sum of log_prob in nats. exact: see `clean_row`. Raises InputError with file and line; then
    nothing is written.
    """
    source = open_source(settings)
    tally = Tally()
    with contextlib.ExitStack() as stack:
        files = {}
        for split in SPLITS:
            path = Path(folder) / f"{split}.jsonl"
            files[split] = stack.enter_context(atomic_write(path, "wb"))
        progress = stack.enter_context(Progress("stories", settings.limits()[0], "stories"))

        def clean(role: str) -> Iterator[CleanRow]:
            for group in clean_rows(source.rows(role), settings, workers, exact):
                for row in group:
                    if row is None:
                        tally.dropped["empty"] += 1
                    else:
                        yield row
                progress.advance(len(group))

        evaluation_forms = set()
        if source.has_evaluation:
            for row in _evaluation_rows(clean("evaluation"), settings, tally):
                files["evaluation"].write(row.line)
                evaluation_forms.add(row.form)
            if not evaluation_forms:
                raise InputError(f"{source.name}: the evaluation split has no story with text")
        for split, row in _assign(clean("train"), settings, evaluation_forms, tally):
            files[split].write(row.line)
        _refuse_empty(settings, source.name, tally)
    return source.description | tally.report()


def _refuse_empty(settings: DataSettings, name: str, tally: Tally) -> None:
    """InputError if a split has no story that should have one."""
    needed = SPLITS if settings.held_out == "hash" else ("train",)
    empty = [split for split in needed if not tally.stories(split)]
    if empty:
        stories = tally.stories(*SPLITS)
        if not stories:
            raise InputError(f"{name}: expected stories, got none with text")
        raise InputError(
            f"{name}: {stories:,} stories with text, but none of them is in "
            f"{' or '.join(empty)}; give more stories (in a text file a blank line or "
            f"<|endoftext|> separates them), or change {PARAMS_FILE}: data.held_out_share, which is "
            f"{settings.held_out_share}"
        )
