"""Where stories come from: what section `data` names, as (text, log-probability) pairs or parts of files."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinylm.download import readers
from tinylm.download.marked_text import TextPart
from tinylm.download.stories import DataSettings

EVALUATION_SPLITS = ("validation", "test")  # the first that a dataset has

Row = tuple[str, float | None]  # text, natural log of its probability if known
Rows = Iterator[Row | TextPart]


@dataclass(frozen=True)
class Source:
    """Where the stories come from; `evaluation` is None if the data has no such split."""

    description: dict[str, Any]
    train: Callable[[], Rows]
    evaluation: Callable[[], Rows] | None

    @property
    def name(self) -> str:
        """Its name in messages."""
        return (
            self.description.get("path")
            or self.description.get("hub_id")
            or self.description["source"]
        )


def open_source(settings: DataSettings) -> Source:
    """The source that the settings name; InputError if it does not exist. Only the layout is read."""
    if settings.source == "storybook":
        return _open_storybook(settings)
    if settings.source == "local":
        files = readers.local_splits(Path(settings.path))
        splits = list(files)
        description = {"source": "local", "path": settings.path}

        def read(split: str) -> Iterator[str | TextPart]:
            for path in files[split]:
                yield from readers.read_parts(path, settings.column)
    else:
        splits = readers.hub_splits(settings.hub_id, settings.hub_revision)
        description = {
            "source": "hub",
            "hub_id": settings.hub_id,
            "revision": settings.hub_revision,
        }

        def read(split: str) -> Iterator[str | TextPart]:
            return readers.read_hub(settings.hub_id, settings.hub_revision, split, settings.column)

    official = next((split for split in EVALUATION_SPLITS if split in splits), None)
    instead = "set apart by hash" if settings.held_out == "hash" else "the held-out tokens"
    return Source(
        description | {"evaluation_split": official or instead},
        lambda: map(_row, read("train")),
        (lambda: map(_row, read(official))) if official else None,
    )


def _row(found: str | TextPart) -> Row | TextPart:
    return (found, None) if isinstance(found, str) else found


def _open_storybook(settings: DataSettings) -> Source:
    from tinylm.storybook.corpus import generate

    assert settings.train_stories is not None  # see DataSettings.problems
    assert settings.evaluation_stories is not None
    wanted = settings.train_stories, settings.evaluation_stories, settings.seed

    def rows(place: int) -> Iterator[Row]:
        return ((story.text, story.log_prob) for story in generate(*wanted)[place])

    description = {
        "source": "storybook",
        "seed": settings.seed,
        "evaluation_split": "written apart",
    }
    return Source(description, lambda: rows(0), lambda: rows(1))
