"""Presets: whole parameter files, written over params.yaml with their comments.

storybook.yaml is complete; each other preset holds only the values in which it differs, and is laid over it. What
`--hub` changes in a preset (data from the network in place of a folder) is laid over that, from hub/NAME.yaml.
"""

import contextlib
import functools
import io
import itertools
import os
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.representer import RoundTripRepresenter

from tinylm.base.config import PARAMS_FILE, InputError, load_params, parse_yaml
from tinylm.base.files import atomic_write

FOLDER = Path(__file__).parent
BASE = "storybook"
BASE_TITLE = "stories written here by a small generator; no network, minutes on a CPU"
_SHOWN = 12  # differing keys that a message names

Values = dict[str, Any]  # "section.key" -> value


class _Representer(RoundTripRepresenter):
    """ruamel's, but null is spelled out: an empty value looks like a mistake."""


_Representer.add_representer(
    type(None), lambda r, _: r.represent_scalar("tag:yaml.org,2002:null", "null")
)


def names() -> list[str]:
    """All presets, the complete one first."""
    found = sorted(path.stem for path in FOLDER.glob("*.yaml"))
    return [BASE, *(name for name in found if name != BASE)]


def _read(name: str) -> str:
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def _head(text: str) -> str:
    """The comment lines at the top of a file."""
    lines = text.splitlines(keepends=True)
    return "".join(itertools.takewhile(lambda line: line.startswith("#"), lines))


def title(name: str) -> str:
    """One line that says what the preset is: the first of its file, after its name."""
    return (
        BASE_TITLE
        if name == BASE
        else _head(_read(name)).splitlines()[0].removeprefix(f"# {name}: ")
    )


def hub_names() -> list[str]:
    """The presets whose data can be fetched from the hub."""
    return [name for name in names() if (FOLDER / "hub" / f"{name}.yaml").exists()]


@functools.cache
def preset_text(name: str, hub: bool = False) -> str:
    """params.yaml as the preset writes it. Raises InputError for an unknown preset, section or key."""
    if name not in names():
        raise InputError(f"preset {name!r} is unknown; allowed: {' | '.join(names())}")
    text = _read(name) if name == BASE else merge(_read(BASE), _read(name), f"{name}.yaml")
    if not hub:
        return text
    if name not in hub_names():
        raise InputError(
            f"preset {name} has no data on the hub; --hub goes with: {' | '.join(hub_names())}"
        )
    return merge(text, _read(f"hub/{name}"), f"hub/{name}.yaml").partition("\n")[
        2
    ]  # without the override's header


def merge(base: str, override: str, source: str) -> str:
    """The text of `base` with the values of `override`; comments of base are kept, override's header comes first.

    Raises InputError for a section or key that base lacks: messages name the override by `source`.
    """
    parse_yaml(override, source)  # what is refused in params.yaml is refused here too
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.preserve_quotes = True
    yaml.width = 4096
    document, changes = yaml.load(base), YAML().load(override)
    for section, values in changes.items():
        if section not in document or not isinstance(values, dict):
            raise InputError(
                f"{source}: section {section!r}; allowed: a mapping under one of {', '.join(document)}"
            )
        for key, value in values.items():
            if key not in document[section]:
                raise InputError(
                    f"{source}: {section}.{key} is unknown; allowed: {', '.join(document[section])}"
                )
            document[section][key] = value
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


def differences(old: Values, new: Values) -> list[str]:
    """One "section.key: old -> new" for each value that differs, in the order of `new`."""

    def shown(values: Values, key: str) -> str:
        if key not in values:
            return "(none)"
        value = values[key]
        return (
            "null"
            if value is None
            else str(value).lower()
            if isinstance(value, bool)
            else str(value)
        )

    keys = [*new, *(key for key in old if key not in new)]
    return [
        f"{key}: {shown(old, key)} -> {shown(new, key)}"
        for key in keys
        if (key in old) != (key in new) or old[key] != new[key]
    ]


@functools.cache
def preset_values(name: str, hub: bool = False) -> Values:
    """The values of a preset, as a stage reads them."""
    return flatten(parse_yaml(preset_text(name, hub), f"preset {name}"))


def current(path: str | Path = PARAMS_FILE) -> str | None:
    """The preset whose values the file holds, or None. Raises InputError if it cannot be read."""
    values = flatten(load_params(path))
    forms = [(name, False) for name in names()] + [(name, True) for name in hub_names()]
    return next((name for name, hub in forms if preset_values(name, hub) == values), None)


def _refuse_hand_edits(path: Path) -> None:
    """InputError if the file's values are not those of a preset, naming the keys that differ from the nearest one."""
    if current(path) is not None:
        return
    values = flatten(load_params(path))
    nearest = min(names(), key=lambda name: len(differences(preset_values(name), values)))
    found = differences(preset_values(nearest), values)
    more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise InputError(
        f"{path} was edited since preset {nearest} was written ({', '.join(found[:_SHOWN])}{more}); "
        "--force writes over it"
    )


def write_preset(
    name: str, path: str | Path = PARAMS_FILE, force: bool = False, hub: bool = False
) -> list[str] | None:
    """Write the preset over `path` and return what changed, as `differences`; None if nothing could be compared.

    A file that already has the preset's values is left unchanged. Raises InputError if the file was edited by
    hand or cannot be read, unless `force`.
    """
    path, text = Path(path), preset_text(name, hub)
    old: Values | None = None
    if path.exists() or path.is_symlink():
        if not force:
            _refuse_hand_edits(path)
        with contextlib.suppress(InputError):  # only with force
            old = flatten(load_params(path))
        if old == preset_values(name, hub):
            return []
    with atomic_write(os.path.realpath(path)) as handle:  # a link stays a link
        handle.write(text)
    return None if old is None else differences(old, preset_values(name, hub))
