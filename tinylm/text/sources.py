"""Where stories come from: section `data` and what it names, as iterators of (text, log-probability)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinylm.config import setting
from tinylm.text import readers

EVALUATION_SPLITS = ("validation", "test")  # the first that a dataset has

Row = tuple[str, float | None]  # text, natural log of its probability where the writer knows it


@dataclass(frozen=True)
class DataSettings:
    """Section `data` of params.yaml."""

    source: str = setting(choices=("storybook", "local", "hub"))
    path: str = setting()
    hub_id: str = setting()
    hub_revision: str = setting()
    column: str = setting()
    train_stories: int | None = setting(low=1)
    evaluation_stories: int | None = setting(low=1)
    held_out_share: float = setting(above=0, high=0.4)
    repair_quotes: bool = setting()
    seed: int = setting(low=0)

    def problems(self) -> list[str]:
        """Rules between the fields, each line beginning with a field's name."""
        found = []
        if self.source == "storybook":
            for name in ("train_stories", "evaluation_stories"):
                if getattr(self, name) is None:
                    found.append(f"{name} = null; allowed with source: storybook: a whole number >= 1")
        needed = {"local": ("path", "column"), "hub": ("hub_id", "hub_revision", "column")}.get(self.source, ())
        found += [f"{name} is empty; needed with source: {self.source}" for name in needed if not getattr(self, name)]
        return found


@dataclass(frozen=True)
class Source:
    """Where the stories come from; `evaluation` is None where the data has no such split."""

    description: dict[str, Any]
    train: Callable[[], Iterator[Row]]
    evaluation: Callable[[], Iterator[Row]] | None

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.description.get("path") or self.description.get("hub_id") or self.description["source"]


def open_source(settings: DataSettings) -> Source:
    """What the settings name; InputError where it does not exist. Nothing is read but the layout."""
    if settings.source == "storybook":
        return _open_storybook(settings)
    if settings.source == "local":
        files = readers.local_splits(Path(settings.path))
        splits = list(files)
        description = {"source": "local", "path": settings.path}

        def read(split: str) -> Iterator[str]:
            for path in files[split]:
                yield from readers.read_file(path, settings.column)
    else:
        splits = readers.hub_splits(settings.hub_id, settings.hub_revision)
        description = {"source": "hub", "hub_id": settings.hub_id, "revision": settings.hub_revision}

        def read(split: str) -> Iterator[str]:
            return readers.read_hub(settings.hub_id, settings.hub_revision, split, settings.column)

    official = next((split for split in EVALUATION_SPLITS if split in splits), None)
    return Source(
        description | {"evaluation_split": official or "set apart by hash"},
        lambda: ((text, None) for text in read("train")),
        (lambda: ((text, None) for text in read(official))) if official else None,
    )


def _open_storybook(settings: DataSettings) -> Source:
    from tinylm.text.storybook.corpus import generate

    assert settings.train_stories is not None  # see DataSettings.problems
    assert settings.evaluation_stories is not None
    wanted = settings.train_stories, settings.evaluation_stories, settings.seed

    def rows(place: int) -> Iterator[Row]:
        return ((story.text, story.log_prob) for story in generate(*wanted)[place])

    description = {"source": "storybook", "seed": settings.seed, "evaluation_split": "written apart"}
    return Source(description, lambda: rows(0), lambda: rows(1))
