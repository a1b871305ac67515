"""Presets: whole parameter files, written over params.yaml with their comments.

storybook.yaml is complete. Each other preset holds only the values in which it differs, and is
laid over it. With `--hub`, data come from the Hugging Face hub instead of from a folder.
"""

import contextlib
import functools
import io
import itertools
import json
import os
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tinylm.base.config import PARAMS_FILE, InputError, load_params, parse_yaml
from tinylm.base.files import atomic_write

FOLDER = Path(__file__).parent
BASE = "storybook"
BASE_TITLE = "stories written here by a small generator; no network, minutes on a CPU"

PLACE = "data.path"
SOURCE = "data.source"

Values = dict[str, Any]  # "section.key" -> value
Params = dict[str, dict[str, Any]]  # section -> key -> value

# What `--hub` changes. A path must still name a folder that is there, since dvc.yaml lists it.
HUB_STORIES: Params = {"data": {"source": "hub", "path": "inputs/stories"}}
HUB_VECTORS: Params = {  # the official vectors of 7.24 GB: Common Crawl and Wikipedia, width 300
    "embedding": {
        "source": "file",
        "hub": "facebook/fasttext-en-vectors@a80392390daaee1a91000da45c376d512e1dc555",
    }
}
HUB: dict[str, Params] = {
    "assignment-baseline": HUB_STORIES | HUB_VECTORS,
    "gpt2-bpe": HUB_STORIES,
    "tinystories-2m": HUB_STORIES,
    "tinystories-bpe": HUB_STORIES,
    "word-10k": HUB_STORIES | HUB_VECTORS,
    "word-50k": HUB_STORIES | HUB_VECTORS,
}


def names() -> list[str]:
    """All presets, the complete one first."""
    others = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem != BASE)
    return [BASE, *others]


def _read(name: str) -> str:
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def params_or_preset() -> Params:
    """params.yaml, or the complete preset where there is none: a model can be used anywhere."""
    if Path(PARAMS_FILE).exists():
        return load_params()
    return parse_yaml(preset_text(BASE), f"preset {BASE}")


def _head(text: str) -> str:
    """The comment lines at the top of a file."""
    lines = text.splitlines(keepends=True)
    return "".join(itertools.takewhile(lambda line: line.startswith("#"), lines))


def title(name: str) -> str:
    """One line that describes the preset: the first of its file, after its name."""
    if name == BASE:
        return BASE_TITLE
    return _head(_read(name)).splitlines()[0].removeprefix(f"# {name}: ")


@functools.cache
def preset_text(name: str, hub: bool = False) -> str:
    """params.yaml as the preset writes it. Raises InputError for an unknown preset."""
    if name not in names():
        raise InputError(f"preset: expected one of {', '.join(names())}, got {name!r}")
    text = _read(BASE)
    if name != BASE:
        text = merge(text, _read(name), f"{name}.yaml")
    if not hub:
        return text
    if name not in HUB:
        raise InputError(
            f"--hub: expected one of {', '.join(HUB)}, which have data on the hub, got {name}"
        )
    return merge(text, json.dumps(HUB[name]), "--hub")  # JSON is YAML


def merge(base: str, override: str, source: str) -> str:
    """The text of `base` with the values of `override`.

    The comments of `base` stay, except within and directly below a list that is replaced; those at
    the top of `override` come first. The form is the one that DVC writes: an empty value for null,
    an item of a list on each line. Raises InputError for a section or key that `base` lacks, naming
    the override by `source`.
    """
    parse_yaml(override, source)  # what is refused in params.yaml is refused here too
    yaml = YAML()
    yaml.default_flow_style = False
    document = yaml.load(base)
    for section, values in YAML().load(override).items():
        if section not in document or not isinstance(values, dict):
            sections = ", ".join(document)
            raise InputError(
                f"{source}: expected keys and values under one of {sections}, got {section!r}"
            )
        for key, value in values.items():
            if key not in document[section]:
                keys = ", ".join(document[section])
                raise InputError(f"{source}: {section}: expected one of {keys}, got {key}")
            if value == [] and (comments := document[section].ca.items.get(key)):
                # comments above the first item; with them, ruamel.yaml writes an invalid []
                comments[3:] = [None]
            document[section][key] = list(value) if isinstance(value, list) else value
    target = io.StringIO()
    yaml.dump(document, target)
    return _head(override) + target.getvalue()


def flatten(params: dict[str, Any]) -> Values:
    """{"section.key": value}; what is not a mapping is under its own name."""
    flat: Values = {}
    for section, values in params.items():
        if isinstance(values, dict):
            flat |= {f"{section}.{key}": value for key, value in values.items()}
        else:
            flat[str(section)] = values
    return flat


def value_as_yaml(values: Values, key: str) -> str:
    """A value as YAML writes it, or "(none)" where there is none."""
    if key not in values:
        return "(none)"
    value = values[key]
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def differences(old: Values, new: Values) -> list[str]:
    """One "section.key: old -> new" for each value that differs, in the order of `new`."""
    lines = []
    for key in [*new, *(key for key in old if key not in new)]:
        if (key in old) != (key in new) or old[key] != new[key]:
            lines.append(f"{key}: {value_as_yaml(old, key)} -> {value_as_yaml(new, key)}")
    return lines


@functools.cache
def preset_values(name: str, hub: bool = False) -> Values:
    """The values of a preset, as a stage reads them."""
    return flatten(parse_yaml(preset_text(name, hub), f"preset {name}"))


def current(path: str | Path = PARAMS_FILE) -> str | None:
    """The preset whose values the file holds, or None. Raises InputError if it cannot be read.

    Where the data are does not count: each user has them elsewhere (`tinylm preset NAME --data`).
    """
    values = flatten(load_params(path))
    for name in names():
        from_hub = [False, True] if name in HUB else [False]
        if any(_equal_but_for_place(values, preset_values(name, hub)) for hub in from_hub):
            return name
    return None


def _equal_but_for_place(values: Values, preset: Values) -> bool:
    """Whether the values are the preset's, apart from those that `--data` sets."""
    free = {PLACE, SOURCE} if values.get(SOURCE) == "local" else {PLACE}
    one, other = ({name: each[name] for name in each.keys() - free} for each in (values, preset))
    return one == other


def write_preset(
    name: str,
    path: str | Path = PARAMS_FILE,
    force: bool = False,
    hub: bool = False,
    data: str | None = None,
) -> list[str] | None:
    """Write the preset over `path` and return the differences; None if there was nothing to compare.

    data: where the user's stories are, instead of the preset's `data.path`. A file that already has
    the preset's values is left unchanged. Raises InputError if the file was edited by hand or
    cannot be read, unless `force`.
    """
    path = Path(path)
    text = preset_text(name, hub)
    if data is not None:
        text = merge(text, json.dumps({"data": {"source": "local", "path": data}}), "--data")
    new = flatten(parse_yaml(text, f"preset {name}"))
    old: Values | None = None
    if path.exists() or path.is_symlink():
        if not force and current(path) is None:
            command = f"tinylm preset {name} --force"
            raise InputError(f"{path} was edited since the last preset; {command} overwrites it")
        with contextlib.suppress(InputError):  # only with force
            old = flatten(load_params(path))
        if old == new:
            return []
    with atomic_write(os.path.realpath(path)) as handle:  # a link stays a link
        handle.write(text)
    return None if old is None else differences(old, new)
