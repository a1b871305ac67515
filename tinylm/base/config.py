"""Strict loading of params.yaml: YAML -> frozen settings classes, every error at once with its key path.

DVC reads params.yaml with ruamel.yaml as YAML 1.2, PyYAML by itself as YAML 1.1 (`1e-3` a string, `off` a
boolean). The loader here is PyYAML's SafeLoader with ruamel's rules of which plain scalar is a number, so that a
stage sees exactly what DVC hashed. Refused: equal keys in one mapping, other YAML versions, tags past the core's.
"""

import dataclasses
import difflib
import math
import os
import re
import reprlib
import stat
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

import yaml

PARAMS_FILE = "params.yaml"
MAX_PARAMS_BYTES = 1 << 20
MAX_MERGED = 10_000  # keys that `<<` brings into one mapping: nested ones multiply
S = TypeVar("S")


_repr = reprlib.Repr()
_repr.maxstring, _repr.maxother, _repr.maxlong = 80, 80, 40
_short = _repr.repr  # a value in a message: never a page of it


class InputError(Exception):
    """What a user gave cannot be used; each line names file, place, value and what is allowed (exit code 2)."""


def refuse_endless(path: str | Path) -> None:
    """InputError where a path leads to a pipe, a socket or a device: reading it may never end. A missing one passes."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{path}: a pipe, socket or device; allowed: a file")


class _Yaml12Loader(yaml.SafeLoader):
    """SafeLoader with ruamel's YAML 1.2 scalars, duplicate keys and foreign tags refused."""

    yaml_implicit_resolvers: typing.ClassVar[dict] = {}  # type: ignore[misc]
    yaml_constructors: typing.ClassVar[dict] = {
        tag: constructor
        for tag, constructor in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in ("null", "bool", "str", "seq", "timestamp")
    }

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MAX_MERGED:
            problem = f"more than {MAX_MERGED} keys in one mapping"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, IndexError):  # `!!int abc`, 2001-13-45, a number of 5000 digits
            kind = node.tag.rpartition(":")[2]
            problem = f"{_short(node.value)} is no {kind}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None


for _tag, _pattern, _first in [
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (
        "float",
        r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
        r"|[-+]?\.[0-9_]+(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    ("int", r"[-+]?(?:0b[01_]+|0o?[0-7_]+|[0-9_]+|0x[0-9a-fA-F_]+)", list("-+0123456789")),
    (
        "timestamp",
        r"\d{4}-\d\d-\d\d|\d{4}-\d\d?-\d\d?(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d(?:\.\d*)?"
        r"(?:[ \t]*(?:Z|[-+]\d\d?(?::\d\d)?))?",
        list("0123456789"),
    ),
    ("merge", "<<", ["<"]),
    ("value", "=", ["="]),
]:
    _Yaml12Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$", re.ASCII), _first)


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node).replace("_", "")
    digits = text.lstrip("-+")
    base = {"0b": 2, "0o": 8, "0x": 16}.get(digits[:2], 10)  # YAML 1.2: 010 is ten
    return int(text, base)


def _construct_float(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    text = loader.construct_scalar(node).replace("_", "").lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


def _construct_mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict:
    keys: set = set()
    for key_node, _ in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise yaml.constructor.ConstructorError(None, None, "a key is a list or mapping", key_node.start_mark)
        key = key_node.value if key_node.tag.endswith(":merge") else loader.construct_object(key_node)
        if key in keys:
            line = key_node.start_mark.line + 1
            raise InputError(f"{loader.name}, line {line}: key {_short(key)} stands twice; keep one of them")
        keys.add(key)
    return loader.construct_mapping(node, deep=True)


_Yaml12Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Yaml12Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)
_Yaml12Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)


def parse_yaml(text: str, name: str) -> dict[str, Any]:
    """Read one YAML 1.2 mapping; `name` stands in the messages. Raises InputError."""
    odd_break = re.search("[\x85\u2028\u2029]", text)  # line ends in YAML 1.1 only
    if odd_break:
        line = text.count("\n", 0, odd_break.start()) + 1
        raise InputError(f"{name}, line {line}: character U+{ord(odd_break[0]):04X}; allowed: plain line ends")
    try:
        loader = _Yaml12Loader(text)
        loader.name = name
        value = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InputError(f"{name}, line {line}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{name}: not YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise InputError(f"{name}: nested too deeply; sections hold plain values and lists") from None
    if loader.yaml_version not in (None, (1, 2)):
        raise InputError(f"{name}: %YAML {loader.yaml_version[0]}.{loader.yaml_version[1]}; allowed: YAML 1.2")
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
        raise InputError(f"{path}: longer than {MAX_PARAMS_BYTES} bytes; allowed: sections of settings")
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
    """Return the value as `kind`, or raise ValueError where type or range is wrong."""
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
    """Turn params[name] into the settings class `cls`; every key must stand there, no other may.

    A settings class may define `problems() -> list[str]` for rules between its fields; each string starts with
    the field's name. Raises InputError with one line for each error, all at once.
    """
    if name not in params:
        raise InputError(f"{source}: section {name!r} is missing{_nearest(name, params)}")
    section = params[name]
    if not isinstance(section, dict):
        raise InputError(f"{source}: {name} = {_short(section)}; allowed: a mapping of settings")
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    unknown = [key for key in section if key not in fields]
    errors = [f"{source}: {name}.{str(key)[:80]} is unknown{_nearest(str(key), fields)}" for key in unknown]
    values = {}
    for key, field in fields.items():
        if key not in section:
            errors.append(f"{source}: {name}.{key} is missing; allowed: {_describe_type(hints[key], field.metadata)}")
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
