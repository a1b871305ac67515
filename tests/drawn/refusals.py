"""Properties of refusals: what is illegal is named by key, one line each, before anything is written."""

import contextlib
import functools
import io
import math
import os
import random
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from tests.drawn.drawing import FIELDS, DrawnRun
from tests.drawn.properties import ALONE, holds
from tests.drawn.running import in_folder, plant_run
from tests.support.stages import run
from tinylm.base.config import Allowed, read_yaml
from tinylm.cli import main
from tinylm.params.params import SECTIONS

BAD_INPUT = 2
Params = dict[str, dict[str, Any]]
MOST_AT_ONCE = 3
# Of no type that a setting has: a mapping in a list is refused as an element, too.
WRONG_TYPES: tuple[Any, ...] = (
    "no such value",
    0.5,
    True,
    None,
    -7,
    [{"a": 1}],
    {"a": 1},
    math.nan,
)


def accepts(value: Any, kind: Any, allowed: Allowed) -> bool:
    """Whether a declaration allows a value, read from the declaration alone."""
    parts = typing.get_args(kind) if typing.get_origin(kind) is not tuple else ()
    if type(None) in parts:
        return value is None or accepts(value, parts[0], allowed)
    if typing.get_origin(kind) is tuple:
        element = typing.get_args(kind)[0]
        one = Allowed(**{**vars(allowed), "length": 0})
        is_set = isinstance(value, list) and len(value) >= allowed.length
        return is_set and all(accepts(item, element, one) for item in value)
    if allowed.choices:
        return value in allowed.choices or (
            type(value) is bool and str(value).lower() in allowed.choices
        )
    if value == "auto" and allowed.auto:
        return True
    if kind is float:
        is_number = type(value) in (int, float) and math.isfinite(value)
        return is_number and allowed.holds(value)
    return type(value) is kind and (kind is not int or allowed.holds(value))


def illegal_values(name: str) -> list[Any]:
    """Values of other types, just outside the range, and lists that are too short or repeat."""
    kind, allowed = FIELDS[name]
    edges = [allowed.low - 1, allowed.high + 1, allowed.above]
    numbers = [edge for edge in edges if math.isfinite(edge)]
    values = [*WRONG_TYPES, *numbers, *map(int, numbers)]
    if typing.get_origin(kind) is tuple:
        values = [*values, [], *([value] for value in values)]
    return [value for value in values if not accepts(value, kind, allowed)]


def break_value(params: Params, key: str, chooser: random.Random) -> str:
    section, _, name = key.partition(".")
    params[section][name] = chooser.choice(illegal_values(key))
    return key


def remove_key(params: Params, key: str, chooser: random.Random) -> str:
    section, _, name = key.partition(".")
    del params[section][name]
    return key


def add_key(params: Params, key: str, chooser: random.Random) -> str:
    section = key.partition(".")[0]
    params[section][f"un{key.partition('.')[2]}"] = params[section].get(key.partition(".")[2])
    return f"{section}.un{key.partition('.')[2]}"


def remove_section(params: Params, key: str, chooser: random.Random) -> str:
    section = key.partition(".")[0]
    del params[section]
    return f"section {section!r}"


def flatten_section(params: Params, key: str, chooser: random.Random) -> str:
    section = key.partition(".")[0]
    params[section] = chooser.choice([None, 3, "text", []])
    return section


def add_section(params: Params, key: str, chooser: random.Random) -> str:
    section = f"{key.partition('.')[0]}x"
    params[section] = {}
    return f"section {section!r}"


BREAKS: tuple[Callable[[Params, str, random.Random], str], ...] = (
    break_value,
    break_value,
    break_value,
    remove_key,
    add_key,
    remove_section,
    flatten_section,
    add_section,
)


def broken(drawn: DrawnRun) -> tuple[Params, set[str]]:
    """(params.yaml with one to three errors, the names of what is wrong), each in another section."""
    chooser = random.Random(drawn.number)
    params = drawn.params()
    named = set()
    for section in chooser.sample(list(SECTIONS), chooser.randint(1, MOST_AT_ONCE)):
        key = chooser.choice([name for name in FIELDS if name.startswith(f"{section}.")])
        named.add(chooser.choice(BREAKS)(params, key, chooser))
    return params, named


def names_in(lines: list[str]) -> list[str]:
    """What each line of an error names, without the file."""
    named = []
    for line in lines:
        text = line.removeprefix("error: ")
        assert text.startswith("params.yaml: "), line
        words = text.removeprefix("params.yaml: ").split(" ")
        first = " ".join(words[:2]) if words[0] == "section" else words[0]
        named.append(first.rstrip(":"))
    return named


def commands() -> list[str]:
    """Every stage of dvc.yaml, as it is called."""
    stages = read_yaml("dvc.yaml")["stages"]
    return [f"{name} 2" if "matrix" in stage else name for name, stage in stages.items()]


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """{file: (size, time of its last change)}, of what is not a link to the code."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(place) / name
            found[str(path)] = (path.lstat().st_size * path.is_file(), path.lstat().st_mtime_ns)
    return found


def ended(command: Callable[[], int]) -> tuple[int, list[str]]:
    """(exit code, lines on standard error)."""
    no_traceback = mock.patch.dict(os.environ, TINYLM_DEBUG="0")
    with no_traceback, contextlib.redirect_stderr(io.StringIO()) as printed:
        code = command()
    return code, printed.getvalue().splitlines()


@holds(ALONE)
def errors_in_params_are_named_before_anything_is_written(drawn: DrawnRun, folder: Path) -> None:
    """`tinylm check` and every stage name exactly the broken keys, one line each, with exit code 2."""
    plant_run(drawn, folder)
    params, expected = broken(drawn)
    (folder / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    before = contents(folder)
    with in_folder(folder):
        code, lines = ended(lambda: main(["check"]))
        assert code == BAD_INPUT, f"tinylm check: expected exit code 2, got {code}"
        in_params = [line for line in lines if line.startswith("error: params.yaml: ")]
        assert set(names_in(in_params)) >= expected, f"check: expected {expected}, got {lines}"
        for command in commands():
            code, lines = ended(functools.partial(run, command))
            assert code == BAD_INPUT, f"{command}: expected exit code 2, got {code}: {lines}"
            named = names_in(lines)
            assert sorted(named) == sorted(expected), f"{command}: expected {expected}, got {lines}"
    assert contents(folder) == before, "a refused command wrote something"
