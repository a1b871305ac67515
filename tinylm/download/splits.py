"""The corpus: three splits of cleaned stories, one JSON line per story.

**train**; **held_out**, a share of it; **evaluation**, the official validation split. A hash of the
bare story and the seed decides which train stories are held out. So stories that are the same by
`same_story` are on one side, and an additional story moves no other. If the data has no evaluation
split, the same hash reserves one, as large as held-out. A train story that is the same as an
evaluation story is dropped. Near-copies stay, and are counted.

With `held_out: tokens` all train stories are in train, in order, and stage vocab cuts their tokens:
held_out is empty here, and so is evaluation if the data has no such split.
"""

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.files import atomic_write
from tinylm.download.in_order import in_groups, map_in_order
from tinylm.download.readers import hub_folder, local_files, other_files, read_file
from tinylm.download.rows import CleanRow, Row, clean_chunk
from tinylm.download.same_story import count_near_copies
from tinylm.download.stories import SPLITS, DataSettings, read_texts
from tinylm.host.progress import Progress

HASH_RANGE = 1 << 64  # of a key's first eight bytes
CHUNK_ROWS = 2000  # stories that a process cleans at a time
OFFICIAL_EVALUATION = ("validation", "test")  # the first that a dataset has
NO_OFFICIAL_EVALUATION = {"hash": "set apart by hash", "tokens": "the held-out tokens"}


@dataclass(frozen=True)
class Source:
    """Where the stories come from.

    description: what is reported of it. evaluation: None without such a split. size: in bytes.
    """

    name: str
    description: dict[str, Any]
    train: Callable[[], Iterator[Row]]
    evaluation: Callable[[], Iterator[Row]] | None
    size: int = 0


def open_source(settings: DataSettings) -> Source:
    """The source that the settings name. Raises InputError if it does not exist."""
    if settings.source == "storybook":
        return _open_storybook(settings)
    description: dict[str, Any]
    if settings.source == "local":
        name = settings.path
        folder = Path(settings.path)
        description = {"source": "local", "path": name}
    else:
        name = settings.hub_id
        folder = hub_folder(settings.hub_id, settings.hub_revision)
        description = {"source": "hub", "hub_id": name, "revision": settings.hub_revision}
    splits = local_files(folder, settings.source == "hub")
    inputs = {"train": splits["train"]}
    official = next((split for split in OFFICIAL_EVALUATION if split in splits), "")
    if official:
        inputs["evaluation"] = splits[official]

    def read(role: str) -> Iterator[Row]:
        for path in inputs[role]:
            for text in read_file(path, settings.column):
                yield text, None

    root = folder.parent if folder.is_file() else folder
    files = list(chain.from_iterable(inputs.values()))
    description["evaluation_split"] = official or NO_OFFICIAL_EVALUATION[settings.held_out]
    description["files"] = {}
    for role, of_role in inputs.items():
        description["files"][role] = [str(path.relative_to(root)) for path in of_role]
    description["left_out"] = other_files(folder, files) if folder.is_dir() else []
    evaluation = functools.partial(read, "evaluation") if official else None
    size = sum(path.stat().st_size for path in files)
    return Source(name, description, functools.partial(read, "train"), evaluation, size)


def _open_storybook(settings: DataSettings) -> Source:
    from tinylm.storybook.corpus import generate

    def rows(index: int) -> Iterator[Row]:
        sizes = (settings.train_stories or 0, settings.evaluation_stories or 0)
        for story in generate(*sizes, settings.seed)[index]:
            yield story.text, story.log_prob

    description = {"source": "storybook", "seed": settings.seed}
    description["evaluation_split"] = "generated with another seed"
    return Source("storybook", description, lambda: rows(0), lambda: rows(1))


def _key_at(share: float) -> bytes:
    """The key below which this share of all keys is."""
    return int(share * HASH_RANGE).to_bytes(8, "big")


def _assign(
    settings: DataSettings,
    source: Source,
    clean: Callable[[Iterator[Row]], Iterator[CleanRow]],
    dropped: Counter[str],
) -> Iterator[tuple[str, CleanRow]]:
    """(its split, the story) of each story that is stored; counts the others in `dropped`."""
    limit = settings.evaluation_stories
    share = settings.held_out_share if settings.held_out == "hash" else 0.0
    held_out_end = _key_at(share)
    evaluation_end = held_out_end if source.evaluation else _key_at(2 * share)
    evaluation_keys = set()
    if source.evaluation:
        for row in islice(clean(source.evaluation()), limit):
            evaluation_keys.add(row.key)
            yield "evaluation", row
        if not evaluation_keys:
            raise InputError(f"{source.name}: the evaluation split has no story with text")
    evaluated = 0
    trained = 0
    for row in clean(source.train()):
        if row.key in evaluation_keys:
            dropped["in_evaluation"] += 1
        elif held_out_end <= row.key < evaluation_end:
            if evaluated != limit:
                evaluated += 1
                yield "evaluation", row
        else:
            trained += 1
            yield "held_out" if row.key < held_out_end else "train", row
        if trained == settings.train_stories:
            return


def write_stories(
    settings: DataSettings,
    folder: str | Path = paths.STORIES,
    workers: int = 1,
) -> dict[str, Any]:
    """Write {split}.jsonl: {"text": ...} per line, with "log_prob" if there is one.

    Returns the source with its files, the near-copies, and the number of dropped stories. For each
    split it has stories, words and the sum of log_prob in nats. Raises InputError with file and line;
    then nothing is written.
    """
    source = open_source(settings)
    totals: dict[str, dict[str, float]] = {}
    for split in SPLITS:
        totals[split] = {"stories": 0, "words": 0}
    dropped = Counter(empty=0, in_evaluation=0)
    with contextlib.ExitStack() as stack:
        handles = {}
        for split in SPLITS:
            path = Path(folder) / f"{split}.jsonl"
            handles[split] = stack.enter_context(atomic_write(path, "wb"))
        progress = stack.enter_context(Progress("stories", settings.train_stories, "stories"))

        def clean(rows: Iterator[Row]) -> Iterator[CleanRow]:
            """The stories that are not empty, cleaned by several processes if there are many."""
            groups = in_groups(rows, CHUNK_ROWS)
            for chunk in map_in_order(clean_chunk, groups, workers, settings):
                for row in chunk:
                    if row is None:
                        dropped["empty"] += 1
                    else:
                        yield row
                progress.advance(len(chunk))

        for split, row in _assign(settings, source, clean, dropped):
            handles[split].write(row.line)
            counts = totals[split]
            counts["stories"] += 1
            counts["words"] += row.words
            if row.log_prob is not None:
                counts["log_prob_nats"] = counts.get("log_prob_nats", 0.0) + row.log_prob
        _refuse_empty(settings, source, totals)
    for counts in totals.values():
        if "log_prob_nats" in counts:
            counts["log_prob_nats"] = round(counts["log_prob_nats"], 6)
    others = {split: read_texts(folder, split) for split in SPLITS[1:] if totals[split]["stories"]}
    near_copies = count_near_copies(read_texts(folder, "train"), others, workers)
    return source.description | {
        "splits": totals,
        "dropped": dict(dropped),
        "near_copies": near_copies,
    }


def _refuse_empty(
    settings: DataSettings, source: Source, totals: dict[str, dict[str, float]]
) -> None:
    """InputError if a split has no story that should have one."""
    needed = SPLITS if settings.held_out == "hash" else ("train",)
    empty = [split for split in needed if not totals[split]["stories"]]
    if empty:
        stories = sum(counts["stories"] for counts in totals.values())
        if not stories:
            raise InputError(f"{source.name}: no story with text; allowed: at least one per split")
        raise InputError(
            f"{source.name}: {stories:,} stories with text, and none of them is in "
            f"{' or '.join(empty)}; allowed: more stories (in a text file a blank line or "
            f"<|endoftext|> separates two), or another {PARAMS_FILE}: data.held_out_share than "
            f"{settings.held_out_share}"
        )
