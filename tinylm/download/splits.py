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
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError
from tinylm.base.files import atomic_write
from tinylm.base.parallel import in_groups, map_in_order
from tinylm.base.progress import Progress
from tinylm.download.stories import SPLITS, DataSettings, split_hub
from tinylm.text.cleaning import clean_text
from tinylm.text.same_story import bare_text

HASH_RANGE = 1 << 64  # of a key's first eight bytes
PACKING = 2  # bytes of text in a byte of a gz or parquet file
CHUNK_ROWS = 2000  # stories that a process cleans at a time
# The first that a dataset has; `datasets` knows these names, but leaves some as they are.
OFFICIAL_EVALUATION = (
    *("validation", "valid", "val", "dev"),
    *("test", "testing", "eval", "evaluation"),
)
NO_OFFICIAL_EVALUATION = {"hash": "set apart by hash", "tokens": "the held-out tokens"}

HELD_OUT_IS_EVALUATION = (
    "the data has no evaluation split, so with data.held_out: tokens the evaluation text is the "
    "held-out text, on which training makes its choices; add a test file, or set data.held_out: hash"
)
DROPPED = {  # why a story is in no split
    "empty": "stories without text",
    "in_evaluation": "train stories that are the same as evaluation stories",
    "beyond_evaluation_stories": "stories set apart for evaluation, beyond data.evaluation_stories",
}
SHOWN_FILES = 5  # of those that are not read, in a remark

Row = tuple[str, float | None]  # text, natural log of its probability if it has one


@dataclass(frozen=True)
class Source:
    """Where the stories come from.

    description: what is reported of it. rows: the stories of "train" or "evaluation".
    sizes: bytes of text of each role's files, about; none for stories that are written here.
    """

    name: str
    description: dict[str, Any]
    has_evaluation: bool
    rows: Callable[[str], Iterator[Row]]
    sizes: Mapping[str, float] = field(default_factory=dict)


def open_source(settings: DataSettings) -> Source:
    """The source that the settings name. Raises InputError if it does not exist."""
    if settings.source == "storybook":
        return _open_storybook(settings)
    from tinylm.download.folders import hub_folder, local_files, unread_files
    from tinylm.download.readers import read_file

    description: dict[str, Any]
    if settings.source == "local":
        name = settings.path
        folder = Path(settings.path)
        description = {"source": "local", "path": name}
    else:
        name, revision = split_hub(settings.hub)
        folder = hub_folder(name, revision)
        description = {"source": "hub", "hub_id": name, "revision": revision}
    splits = local_files(folder, settings.source == "hub")
    inputs = {"train": splits["train"]}
    official = next((split for split in OFFICIAL_EVALUATION if split in splits), "")
    if official:
        inputs["evaluation"] = splits[official]
        for path in splits[official]:
            if path in inputs["train"]:
                raise InputError(
                    f"{path}: expected a file of one split, but its name or the README puts it in "
                    f"train and {official}; rename it"
                )
    description["evaluation_split"] = official or NO_OFFICIAL_EVALUATION[settings.held_out]
    root = folder.parent if folder.is_file() else folder
    description["files"] = {}
    sizes = {}
    for role, of_role in inputs.items():
        description["files"][role] = [str(path.relative_to(root)) for path in of_role]
        sizes[role] = sum(map(_text_bytes, of_role))
    if folder.is_dir():
        read = {"train", official} & set(splits)
        if unread := unread_files(folder, splits, read):
            description["not_read"] = unread
        if capital := [
            file for file in description["files"]["train"] if _looks_like_evaluation(file)
        ]:
            description["capital_names"] = capital

    def rows(role: str) -> Iterator[Row]:
        for path in inputs[role]:
            for text in read_file(path, settings.column):
                yield text, None

    return Source(name, description, bool(official), rows, sizes)


def _looks_like_evaluation(file: str) -> bool:
    """Whether a name in lower case, which `datasets` asks for, would be one of an evaluation split."""
    words = re.split(r"[^a-z]+", file.lower())
    return (
        file != file.lower()
        and not {"train", "training"} & set(words)
        and bool(set(OFFICIAL_EVALUATION) & set(words))
    )


def _text_bytes(path: Path) -> float:
    """About as many bytes as the file's text has."""
    packed = path.name.endswith((".gz", ".parquet"))
    return path.stat().st_size * (PACKING if packed else 1)


def _open_storybook(settings: DataSettings) -> Source:
    from tinylm.storybook.corpus import generate

    def rows(role: str) -> Iterator[Row]:
        train_stories, evaluation_stories = settings.limits()
        train, evaluation = generate(train_stories or 0, evaluation_stories or 0, settings.seed)
        for story in train if role == "train" else evaluation:
            yield story.text, story.log_prob

    description = {"source": "storybook", "seed": settings.seed}
    description["evaluation_split"] = "generated with another seed"
    return Source("storybook", description, True, rows)


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


def _clean_rows(rows: Sequence[Row], settings: DataSettings, exact: bool) -> list[CleanRow | None]:
    return [clean_row(text, log_prob, settings, exact) for text, log_prob in rows]


def _key_at(share: float) -> bytes:
    """The key below which this share of all keys is."""
    return int(share * HASH_RANGE).to_bytes(8, "big")


def _assign(
    settings: DataSettings,
    source: Source,
    clean: Callable[[Iterator[Row]], Iterator[CleanRow]],
    dropped: Counter[str],
    read_first: dict[str, int],
) -> Iterator[tuple[str, CleanRow]]:
    """(its split, the story) of each story that is stored; counts the others in `dropped`.

    read_first: gets {role: limit} where more stories follow than the settings read.
    """
    train_limit, limit = settings.limits()
    share = settings.held_out_share if settings.held_out == "hash" else 0.0
    held_out_end = _key_at(share)
    evaluation_end = held_out_end if source.has_evaluation else _key_at(2 * share)
    evaluation_forms = set()
    if source.has_evaluation:
        stories = clean(source.rows("evaluation"))
        for row in islice(stories, limit):
            evaluation_forms.add(row.form)
            yield "evaluation", row
        if limit is not None and next(stories, None) is not None:
            read_first["evaluation"] = limit
        if not evaluation_forms:
            raise InputError(f"{source.name}: the evaluation split has no story with text")
    evaluated = 0
    trained = 0
    for row in clean(source.rows("train")):
        if trained == train_limit:
            read_first["train"] = trained
            return
        if row.form in evaluation_forms:
            dropped["in_evaluation"] += 1
        elif held_out_end <= row.side < evaluation_end:
            if evaluated == limit:
                dropped["beyond_evaluation_stories"] += 1
            else:
                evaluated += 1
                yield "evaluation", row
        else:
            trained += 1
            yield "held_out" if row.side < held_out_end else "train", row


def _clean(
    rows: Iterator[Row],
    settings: DataSettings,
    workers: int,
    exact: bool,
    dropped: Counter[str],
    progress: Progress,
) -> Iterator[CleanRow]:
    """The stories that are not empty, cleaned by several processes if there are many."""
    groups = in_groups(rows, CHUNK_ROWS)
    for chunk in map_in_order(_clean_rows, groups, workers, settings, exact):
        for row in chunk:
            if row is None:
                dropped["empty"] += 1
            else:
                yield row
        progress.advance(len(chunk))


def write_stories(
    settings: DataSettings,
    folder: str | Path = paths.STORIES,
    workers: int = 1,
    exact: bool = False,
) -> dict[str, Any]:
    """Write {split}.jsonl: {"text": ...} per line, with "log_prob" if there is one.

    Returns the source with its files and those that are not read, the number of dropped stories by
    reason, where the settings end the reading early and, for each split, its stories, words and the
    sum of log_prob in nats. exact: see `clean_row`. Raises InputError with
    file and line; then nothing is written.
    """
    source = open_source(settings)
    dropped = Counter(empty=0, in_evaluation=0)
    read_first: dict[str, int] = {}
    totals: dict[str, dict[str, float]] = {}
    with contextlib.ExitStack() as stack:
        files = {}
        for split in SPLITS:
            path = Path(folder) / f"{split}.jsonl"
            files[split] = stack.enter_context(atomic_write(path, "wb"))
            totals[split] = {"stories": 0, "words": 0}
        progress = stack.enter_context(Progress("stories", settings.limits()[0], "stories"))
        clean = partial(
            _clean,
            settings=settings,
            workers=workers,
            exact=exact,
            dropped=dropped,
            progress=progress,
        )
        for split, row in _assign(settings, source, clean, dropped, read_first):
            files[split].write(row.line)
            _count(totals[split], row)
        _refuse_empty(settings, source, totals)
    corpus = source.description | {
        "splits": {split: _rounded(counts) for split, counts in totals.items()},
        "dropped": dict(dropped),
    }
    return corpus | ({"read_first": read_first} if read_first else {})


def remarks(corpus: Mapping[str, Any]) -> list[str]:
    """A line for each kind of text that is in no split, and if held-out is also evaluation.

    corpus: what `write_stories` returns, or the description of a source that is not read yet.
    """
    lines = []
    if unread := corpus.get("not_read"):
        shown = [f"{file} ({reason})" for file, reason in unread.items()][:SHOWN_FILES]
        more = f" and {len(unread) - len(shown)} more" if len(unread) > len(shown) else ""
        lines.append(
            f"data.{'hub' if corpus['source'] == 'hub' else 'path'}: not read: {', '.join(shown)}{more}"
        )
    for file in corpus.get("capital_names", ())[:SHOWN_FILES]:
        lines.append(
            f"{file} is read as train; in lower case its name would make it a split of its own"
        )
    if corpus["evaluation_split"] == NO_OFFICIAL_EVALUATION["tokens"]:
        lines.append(HELD_OUT_IS_EVALUATION)
    for role, count in corpus.get("read_first", {}).items():
        read = "train and held-out together had" if role == "train" else "evaluation had"
        lines.append(f"read until {read} {count:,} stories; data.{role}_stories: null reads all")
    for reason, count in corpus.get("dropped", {}).items():
        if count:
            lines.append(f"dropped: {count:,} {DROPPED[reason]}")
    return lines


def _count(counts: dict[str, float], row: CleanRow) -> None:
    """Add a story to the numbers of its split."""
    counts["stories"] += 1
    counts["words"] += row.words
    if row.log_prob is not None:
        counts["log_prob_nats"] = counts.get("log_prob_nats", 0.0) + row.log_prob


def _rounded(counts: dict[str, float]) -> dict[str, float]:
    return {name: round(number, 6) for name, number in counts.items()}


def _refuse_empty(
    settings: DataSettings, source: Source, totals: dict[str, dict[str, float]]
) -> None:
    """InputError if a split has no story that should have one."""
    needed = SPLITS if settings.held_out == "hash" else ("train",)
    empty = [split for split in needed if not totals[split]["stories"]]
    if empty:
        stories = sum(counts["stories"] for counts in totals.values())
        if not stories:
            raise InputError(f"{source.name}: expected stories, got none with text")
        raise InputError(
            f"{source.name}: {stories:,} stories with text, but none of them is in "
            f"{' or '.join(empty)}; give more stories (in a text file a blank line or "
            f"<|endoftext|> separates them), or change {PARAMS_FILE}: data.held_out_share, which is "
            f"{settings.held_out_share}"
        )
