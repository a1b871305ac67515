"""Licences, origin and omissions stated for a published model."""

import dataclasses
import re
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError, parse_yaml

KNOWN = {"roneneldan/TinyStories": "cdla-sharing-1.0"}  # as its page on the hub says
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .+-]{0,63}")
_FRONT = re.compile(r"\A---\n(.*?\n)---\n", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class DataLicence:
    """The data by name, its licence (None: not known) and who says so."""

    data: str
    name: str | None
    said_by: str


def check_name(text: str, option: str) -> str:
    """A licence's name as it was typed. Raises InputError for what is not a name."""
    if not _NAME.fullmatch(text):
        raise InputError(
            f"{option} {text!r}; allowed: a licence's name such as mit, cc-by-4.0 or cdla-sharing-1.0"
        )
    return text


def _stated(page: Path) -> str | None:
    """`license` in the header of a data set's README.md."""
    try:
        front = _FRONT.match(page.read_text(encoding="utf-8"))
        stated = parse_yaml(front[1], str(page)).get("license") if front else None
    except (OSError, UnicodeDecodeError, InputError):
        return None
    return stated if isinstance(stated, str) and _NAME.fullmatch(stated) else None


def data_licence(
    section: dict[str, Any], given: str | None, folder: str | Path = "."
) -> DataLicence:
    """For section `data` of params.yaml, paths relative to `folder`; `given`: the user's own statement, which wins."""
    source, path = section["source"], Path(folder) / str(section["path"])
    name: str | None
    if source == "storybook":
        data, name, by = (
            "the storybook, stories that tinylm writes itself",
            "mit",
            "tinylm's own licence",
        )
    elif source == "hub":
        data = f"{section['hub_id']} of the Hugging Face hub, revision {section['hub_revision']}"
        name, by = KNOWN.get(section["hub_id"]), "the data set's page on the hub"
    else:
        data = f"{path.name}, read from a local {'folder' if path.is_dir() else 'file'}"
        name, by = _stated(path / "README.md"), "README.md of the data"
    if given is not None:
        name, by = given, "whoever published this model"
    return DataLicence(data, name, by if name else "")


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a model comes from.

    The commit, with "+" appended if the code differs from it, None outside git; the MD5 of models/ in dvc.lock; the
    files that say how it was made and whose current state is in no commit.
    """

    commit: str | None
    models_md5: str
    uncommitted: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Publication:
    """OWNER/NAME, form of the weights (transformers | tinylm), licences, origin and omissions.

    repo: a name alone where it is on no hub; `left_out`: files that do not belong to this run, and why; `lacks`:
    decoding settings that generate() lacks; `weights`: whether they are beside the card.
    """

    repo: str
    format: str
    licence: str | None
    data: DataLicence
    origin: Origin
    report: bool
    left_out: tuple[str, ...]
    lacks: tuple[str, ...]
    weights: bool = True
