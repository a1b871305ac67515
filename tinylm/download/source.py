"""Where the stories come from: the storybook or another world, files on this machine, or a dataset of the hub."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.base.hub import split_hub
from tinylm.download.settings import GENERATED, DataSettings
from tinylm.text.stories import NO_OFFICIAL_EVALUATION

PACKING = 2  # bytes of text in a byte of a gz or parquet file
# The first that a dataset has; `datasets` knows these names, but leaves some as they are.
OFFICIAL_EVALUATION = (
    *("validation", "valid", "val", "dev"),
    *("test", "testing", "eval", "evaluation"),
)

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
    if settings.source in GENERATED:
        return _open_world(settings)
    if settings.source == "hub":
        return _open_hub(settings)
    description = {"source": "local", "path": settings.path}
    return _open_files(settings.path, Path(settings.path), description, settings)


def _open_world(settings: DataSettings) -> Source:
    from tinylm.storybook.check import read_world, try_stories
    from tinylm.storybook.corpus import generate
    from tinylm.storybook.world import storybook

    is_storybook = settings.source == "storybook"
    world = storybook() if is_storybook else read_world(settings.path)

    def rows(role: str) -> Iterator[Row]:
        train_stories, evaluation_stories = settings.limits()
        counts = (train_stories or 0, evaluation_stories or 0)
        train, evaluation = generate(*counts, settings.seed, world)
        for story in train if role == "train" else evaluation:
            yield story.text, story.log_prob

    description: dict[str, Any] = {"source": settings.source, "seed": settings.seed}
    if not is_storybook:
        description |= {
            "path": settings.path,
            "world": world.digest(),
            "repeats": try_stories(world),
        }
    description["evaluation_split"] = "generated with another seed"
    return Source("storybook" if is_storybook else settings.path, description, True, rows)


def _open_hub(settings: DataSettings) -> Source:
    from tinylm.download.folders import hub_folder

    name, revision = split_hub(settings.hub)
    description = {"source": "hub", "hub_id": name, "revision": revision}
    return _open_files(name, hub_folder(name, revision), description, settings)


def _open_files(name: str, folder: Path, origin: dict[str, str], settings: DataSettings) -> Source:
    """The stories of a file or of a dataset folder. origin: the description's first entries."""
    from tinylm.download.folders import local_files, unread_files
    from tinylm.download.readers import read_file

    splits = local_files(folder, is_downloaded=settings.source == "hub")
    official = next((split for split in OFFICIAL_EVALUATION if split in splits), "")
    files = {"train": splits["train"]}
    if official:
        _refuse_shared_files(splits["train"], official, splits[official])
        files["evaluation"] = splits[official]
    root = folder.parent if folder.is_file() else folder
    names = {role: [str(path.relative_to(root)) for path in paths] for role, paths in files.items()}
    description: dict[str, Any] = {
        **origin,
        "evaluation_split": official or NO_OFFICIAL_EVALUATION[settings.held_out],
        "files": names,
    }
    if folder.is_dir():
        unread = unread_files(folder, splits, {"train", official} & set(splits))
        capital = list(filter(_looks_like_evaluation, names["train"]))
        if unread:
            description["not_read"] = unread
        if capital:
            description["capital_names"] = capital

    def rows(role: str) -> Iterator[Row]:
        for path in files[role]:
            for text in read_file(path, settings.column):
                yield text, None

    sizes = {role: sum(map(_text_bytes, paths)) for role, paths in files.items()}
    return Source(name, description, bool(official), rows, sizes)


def _refuse_shared_files(train: list[Path], official: str, evaluation: list[Path]) -> None:
    """Raise InputError if a file of the split `official`, which is evaluation, is also in train."""
    for path in evaluation:
        if path in train:
            raise InputError(
                f"{path}: expected a file of one split, but its name or the README puts it in "
                f"train and {official}; rename it"
            )


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
