"""Strict loading of params.yaml: YAML -> frozen settings classes, every error at once with its key path.

The reader is ruamel.yaml's, as in DVC (YAML 1.2: `1e-3` is a number, `off` a text), so a stage sees exactly what DVC
hashed. PyYAML would read YAML 1.1.
"""

import dataclasses
import difflib
import functools
import math
import os
import re
import reprlib
import stat
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

PARAMS_FILE = "params.yaml"
MAX_PARAMS_BYTES = 1 << 20
MAX_MERGED = 10_000  # keys that `<<` brings into one mapping: nested ones multiply
S = TypeVar("S")


_repr = reprlib.Repr()
_repr.maxstring, _repr.maxother, _repr.maxlong = 80, 80, 40
_short = _repr.repr  # a value in a message, never longer than a line or two


class InputError(Exception):
    """What a user gave cannot be used; each line names file, place, value and what is allowed (exit code 2)."""


def refuse_endless(path: str | Path) -> None:
    """InputError if a path leads to a pipe, a socket or a device: reading it may never end. A missing one passes."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{path}: a pipe, socket or device; allowed: a file")


@functools.cache
def _constructor() -> type:
    """ruamel's safe constructor; ruamel is imported here, so `tinylm --help` does without it."""
    from ruamel.yaml.constructor import ConstructorError, SafeConstructor

    class Constructor(SafeConstructor):
        """Bounds what `<<` merges, and names the line of a value that does not fit its tag or form."""

        def flatten_mapping(self, node: Any) -> Any:
            merged = super().flatten_mapping(node)
            if len(node.value) > MAX_MERGED:
                raise ConstructorError(
                    None, None, f"more than {MAX_MERGED} keys in one mapping", node.start_mark
                )
            return merged

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except (
                ValueError,
                KeyError,
                IndexError,
            ):  # `!!int abc`, 2001-13-45, a number of 5000 digits
                problem = f"{_short(node.value)} is no {node.tag.rpartition(':')[2]}"
                raise ConstructorError(None, None, problem, node.start_mark) from None

    return Constructor


def _yaml_problem(error: Any, line: int) -> str:
    """What ruamel.yaml found wrong, with the place where it began if that is an earlier line."""
    if error.problem == "mapping values are not allowed here":
        return "a ':' where none can stand; is one missing in the line before, or is the indentation wrong?"
    began = error.context_mark.line + 1 if error.context_mark else line
    what = re.sub("^while (parsing|scanning) ", "", error.context or "")
    return f"{error.problem}; {what} begins in line {began}" if began < line else error.problem


def parse_yaml(text: str, name: str) -> dict[str, Any]:
    """Read one YAML mapping as DVC does; messages give `name`. Raises InputError."""
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    reader = YAML(typ="safe", pure=True)
    reader.Constructor = _constructor()
    try:
        value = reader.load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problem = f"not YAML: {_yaml_problem(error, line)}"
        if isinstance(error, DuplicateKeyError):
            problem = (
                f"key {_short(error.problem.split(chr(34))[1])} appears twice; keep one of them"
            )
        raise InputError(f"{name}, line {line}: {problem}") from None
    except YAMLError as error:
        raise InputError(f"{name}: not YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise InputError(
            f"{name}: nested too deeply; sections hold plain values and lists"
        ) from None
    if not isinstance(value, dict):
        held = "is empty" if value is None else f"holds {_short(value)}"
        raise InputError(f"{name}: {held}; allowed: a mapping of sections")
    return value


def load_params(path: str | Path = PARAMS_FILE) -> dict[str, Any]:
    """Read params.yaml as DVC reads it. Raises InputError with the file and line."""
    refuse_endless(path)
    try:
        with open(path, "rb") as handle:
            content = handle.read(MAX_PARAMS_BYTES + 1)
        text = content.decode("utf-8")
    except FileNotFoundError:
        raise InputError(f"{path} is missing; `tinylm preset storybook` writes one") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, byte {error.start}: not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > MAX_PARAMS_BYTES:
        raise InputError(
            f"{path}: longer than {MAX_PARAMS_BYTES} bytes; allowed: sections of settings"
        )
    return parse_yaml(text, str(path))


def setting(
    default: Any = dataclasses.MISSING,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    choices: tuple[str, ...] = (),
    length: int = 0,
) -> Any:
    """Field of a settings class with its allowed range: low <= value <= high, value > above, or one of choices.

    For tuples the range holds for each element and `length` is the least number of elements.
    """
    allowed = {"low": low, "high": high, "above": above, "choices": choices, "length": length}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=allowed)
    return dataclasses.field(default=default, metadata=allowed)


def _allowed_range(meta: typing.Mapping[str, Any]) -> str:
    if meta.get("choices"):
        return " | ".join(meta["choices"])
    parts = [
        f"> {meta['above']}" if meta.get("above") is not None else "",
        f">= {meta['low']}" if meta.get("low") is not None else "",
        f"<= {meta['high']}" if meta.get("high") is not None else "",
    ]
    return " and ".join(part for part in parts if part)


_TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def _describe_type(kind: Any, meta: typing.Mapping[str, Any]) -> str:
    if typing.get_origin(kind) is types.UnionType:
        inner = [k for k in typing.get_args(kind) if k is not types.NoneType]
        return f"{_describe_type(inner[0], meta)}, or null"
    bounds = _allowed_range(meta)
    if typing.get_origin(kind) is tuple:
        name = f"a list of {_TYPE_NAMES[typing.get_args(kind)[0]].removeprefix('a ')}s"
        if meta.get("length"):
            name += f", at least {meta['length']}, all different"
        return f"{name}, each {bounds}" if bounds else name
    if meta.get("choices"):
        return bounds
    return f"{_TYPE_NAMES[kind]} {bounds}".rstrip()


def _convert(value: Any, kind: Any, meta: typing.Mapping[str, Any]) -> Any:
    """Return the value as `kind`, or raise ValueError if type or range is wrong."""
    origin = typing.get_origin(kind)
    if origin is types.UnionType:
        if value is None:
            return None
        kind = next(k for k in typing.get_args(kind) if k is not types.NoneType)
        return _convert(value, kind, meta)
    if origin is tuple:
        if not isinstance(value, list) or len(value) < meta.get("length", 0):
            raise ValueError
        items = tuple(_convert(item, typing.get_args(kind)[0], meta) for item in value)
        if meta.get("length") and len(set(items)) != len(items):
            raise ValueError
        return items
    if type(value) is bool and "true" in (meta.get("choices") or ()):
        value = str(value).lower()
    if kind is float and type(value) is int:
        value = float(value) if abs(value) < 2**1000 else math.inf
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise ValueError
    if meta.get("choices") and value not in meta["choices"]:
        raise ValueError
    if kind in (int, float):
        low, high, above = meta.get("low"), meta.get("high"), meta.get("above")
        if (low is not None and value < low) or (high is not None and value > high):
            raise ValueError
        if above is not None and value <= above:
            raise ValueError
    return value


def _nearest(key: str, known: typing.Iterable[str]) -> str:
    near = difflib.get_close_matches(key[:80], map(str, known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def read_section(params: dict[str, Any], name: str, cls: type[S], source: str = PARAMS_FILE) -> S:
    """Turn params[name] into the settings class `cls`; every key must be there, no other may.

    A settings class may define `problems() -> list[str]` for rules between its fields; each string starts with
    the field's name. Raises InputError with one line for each error, all at once.
    """
    if name not in params:
        raise InputError(f"{source}: section {name!r} is missing")
    section = params[name]
    if not isinstance(section, dict):
        raise InputError(f"{source}: {name} = {_short(section)}; allowed: a mapping of settings")
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    unknown = [key for key in section if key not in fields]
    errors = [
        f"{source}: {name}.{str(key)[:80]} is unknown{_nearest(str(key), fields)}"
        for key in unknown
    ]
    values = {}
    for key, field in fields.items():
        if key not in section:
            errors.append(
                f"{source}: {name}.{key} is missing; allowed: {_describe_type(hints[key], field.metadata)}"
            )
            continue
        try:
            values[key] = _convert(section[key], hints[key], field.metadata)
        except ValueError:
            allowed = _describe_type(hints[key], field.metadata)
            errors.append(f"{source}: {name}.{key} = {_short(section[key])}; allowed: {allowed}")
    if not errors:
        settings = cls(**values)
        problems = getattr(settings, "problems", None)
        errors = [f"{source}: {name}.{problem}" for problem in problems()] if problems else []
    if errors:
        raise InputError("\n".join(errors))
    return settings
