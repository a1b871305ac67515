"""Section `data` of params.yaml, and stories as the stages read and write them."""

import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError, setting
from tinylm.base.files import check_sums, require

STORYBOOK = "tinylm/storybook"


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Section `data` of params.yaml."""

    source: str = setting(choices=("storybook", "local", "hub"))
    path: str = setting()
    hub_id: str = setting("")
    hub_revision: str = setting("")
    column: str = setting("text")
    drop_first_line: bool = setting(False)
    train_stories: int | None = setting(None, low=1)
    evaluation_stories: int | None = setting(None, low=1)
    held_out: str = setting("hash", choices=("hash", "tokens"))
    held_out_share: float = setting(0.1, above=0, high=0.4)
    overlap: int = setting(0, low=0, high=1_000_000)
    repair_quotes: bool = setting(True)
    seed: int = setting(1, low=0)

    def problems(self) -> list[str]:
        """Rules between the fields, each line beginning with a field's name."""
        found = []
        if self.source == "storybook":
            for name in ("train_stories", "evaluation_stories"):
                if getattr(self, name) is None:
                    found.append(
                        f"{name} = null; allowed with source: storybook: a whole number >= 1"
                    )
            if (
                self.path != STORYBOOK
            ):  # dvc.yaml's dep: elsewhere, an edit of the generator would rerun nothing
                found.append(f"path = {self.path!r}; allowed with source: storybook: {STORYBOOK}")
            if self.drop_first_line:  # log-probabilities are those of whole stories
                found.append("drop_first_line = True; allowed with source: storybook: false")
        if self.overlap and self.held_out == "hash":
            found.append(f"overlap = {self.overlap}; allowed with held_out: hash: 0")
        needed = {"local": ("path", "column"), "hub": ("hub_id", "hub_revision", "column")}.get(
            self.source, ()
        )
        found += [
            f"{name} is empty; needed with source: {self.source}"
            for name in needed
            if not getattr(self, name)
        ]
        return found


SPLITS = ("train", "held_out", "evaluation")
BLOCK = 1 << 22  # bytes


@dataclass(frozen=True)
class StoryBlock:
    """Whole lines of a split's file: its bytes from `start` to `end`."""

    path: Path
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def _row(line: str | bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
        row["text"]
    except (ValueError, TypeError, KeyError):
        raise InputError(
            f"{path}, line {number}: not a story; rm {path} and run dvc repro -f -s download"
        ) from None
    return row


def _checked(folder: str | Path, split: str) -> Path:
    path = require(Path(folder) / f"{split}.jsonl", "download")
    check_sums(path, "download")
    return path


def read_stories(folder: str | Path, split: str) -> Iterator[dict[str, Any]]:
    """The rows of one split as written. Raises InputError at once if the file is missing or damaged."""
    path = _checked(folder, split)

    def rows() -> Iterator[dict[str, Any]]:
        with open(path, encoding="utf-8", newline="\n") as handle:
            for number, line in enumerate(handle, 1):
                yield _row(line, path, number)

    return rows()


def story_blocks(folder: str | Path, split: str) -> list[StoryBlock]:
    """One split in blocks of about BLOCK bytes, to be read with `texts_of`. Raises InputError as `read_stories`."""
    path = _checked(folder, split)
    borders, size = [0], os.path.getsize(path)
    with open(path, "rb") as handle:
        while borders[-1] < size:
            handle.seek(min(borders[-1] + BLOCK, size) - 1)
            handle.readline()
            borders.append(handle.tell())
    return [StoryBlock(path, start, end) for start, end in itertools.pairwise(borders)]


def lines_of(block: StoryBlock) -> bytes:
    """The lines of a block as in the file."""
    with open(block.path, "rb") as handle:
        handle.seek(block.start)
        return handle.read(len(block))


def text_of(line: bytes, block: StoryBlock) -> str:
    """The story of one of a block's lines. Raises InputError with the line if it is damaged."""
    try:
        return json.loads(line)["text"]
    except (ValueError, TypeError, KeyError):
        with open(block.path, "rb") as handle:
            before = handle.read(block.start).count(b"\n")
        number = before + lines_of(block).split(b"\n").index(line.rstrip(b"\n")) + 1
        return _row(line, block.path, number)["text"]


def texts_of(block: StoryBlock) -> list[str]:
    """The stories of a block. Raises InputError with the line if one is damaged."""
    return [text_of(line, block) for line in lines_of(block).splitlines()]
