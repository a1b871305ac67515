"""Strict reading of params.yaml into settings classes; every error at once, with its key path.

The reader is ruamel.yaml, as in DVC (YAML 1.2: `1e-3` is a number, `off` a text). So a stage sees
exactly what DVC hashed; PyYAML would read YAML 1.1.
"""

import dataclasses
import difflib
import math
import reprlib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

PARAMS_FILE = "params.yaml"
S = TypeVar("S")

_repr = reprlib.Repr()
_repr.maxstring = 80
_repr.maxother = 80
_repr.maxlong = 40


class InputError(Exception):
    """Input that cannot be used (exit code 2).

    Each line of the message names the file, the key or line, the value, and what is allowed.
    """


def parse_yaml(text: str, name: str) -> dict[str, Any]:
    """Parse one YAML mapping as DVC does; `name` stands for the file in messages.

    Raises InputError with the line of the problem.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        value = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, KeyError, IndexError, RecursionError) as error:
        problem = str(error)
        if isinstance(error, MarkedYAMLError):
            mark = error.problem_mark or error.context_mark
            name = f"{name}, line {mark.line + 1 if mark else 1}"
            problem = str(error.problem or error.context)
        problem = " ".join(problem.split())[:200]
        raise InputError(f"{name}: not YAML: {problem}") from None
    if not isinstance(value, dict):
        raise InputError(f"{name}: holds {_repr.repr(value)}; allowed: a mapping of sections")
    return value


def load_params(path: str | Path = PARAMS_FILE) -> dict[str, Any]:
    """Read params.yaml as DVC reads it. Raises InputError with the file and the line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path} is missing; `tinylm preset storybook` writes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text in UTF-8: {error}") from None
    return parse_yaml(text, str(path))


@dataclasses.dataclass(frozen=True)
class Allowed:
    """The values that a setting may have: low <= value <= high, value > above, or one of choices.

    The range of a tuple holds for each element, and `length` is the least number of elements.
    """

    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf
    choices: tuple[str, ...] = ()
    length: int = 0

    def holds(self, value: Any) -> bool:
        """Whether one plain value is within the range, or one of the choices."""
        if self.choices:
            return value in self.choices
        if isinstance(value, str | bool):
            return True
        return bool(self.low <= value <= self.high and value > self.above)

    def __str__(self) -> str:
        if self.choices:
            return " | ".join(self.choices)
        limits = ((">", self.above), (">=", self.low), ("<=", self.high))
        return " and ".join(f"{sign} {limit}" for sign, limit in limits if math.isfinite(limit))


def parameter(params: Mapping[str, Any], name: str) -> Any:
    """A section, or the value of "section.key"; None if it is missing."""
    section, _, key = name.partition(".")
    values = params.get(section)
    return values.get(key) if key and isinstance(values, dict) else values


def setting(default: Any = dataclasses.MISSING, **allowed: Any) -> Any:
    """Field of a settings class; the keywords are those of `Allowed`."""
    metadata = {"allowed": Allowed(**allowed)}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


_TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def _without_null(kind: Any) -> tuple[Any, bool]:
    """(the type, whether null is allowed too) of a field's annotation."""
    if typing.get_origin(kind) is not types.UnionType:
        return kind, False
    inner = [part for part in typing.get_args(kind) if part is not types.NoneType]
    return inner[0], True


def _describe(kind: Any, allowed: Allowed) -> str:
    """What a field may hold, for messages."""
    kind, nullable = _without_null(kind)
    if typing.get_origin(kind) is tuple:
        element = _TYPE_NAMES[typing.get_args(kind)[0]].removeprefix("a ")
        text = f"a list of {element}s"
        if allowed.length:
            text += f", at least {allowed.length}, all different"
        if str(allowed):
            text += f", each {allowed}"
    elif allowed.choices:
        text = str(allowed)
    else:
        text = f"{_TYPE_NAMES[kind]} {allowed}".rstrip()
    return f"{text}, or null" if nullable else text


def _convert(value: Any, kind: Any, allowed: Allowed) -> Any:
    """The value as the annotated type. Raises ValueError or OverflowError if it is not allowed."""
    kind, nullable = _without_null(kind)
    if value is None and nullable:
        return None
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, list) or len(value) < allowed.length:
            raise ValueError
        items = tuple(_convert(item, typing.get_args(kind)[0], allowed) for item in value)
        if allowed.length and len(set(items)) != len(items):
            raise ValueError
        return items
    if type(value) is bool and "true" in allowed.choices:
        value = str(value).lower()
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or not allowed.holds(value):
        raise ValueError
    if kind is float and not math.isfinite(value):
        raise ValueError
    return value


def unknown(key: object, names: Iterable[str]) -> str:
    """What is wrong with a key that is none of the names, with the nearest of them."""
    near = difflib.get_close_matches(str(key)[:80], list(names), n=1)
    return f"is unknown; did you mean {near[0]!r}?" if near else "is unknown"


def read_section(
    params: Mapping[str, Any], name: str, cls: type[S], source: str = PARAMS_FILE
) -> S:
    """Turn params[name] into the settings class `cls`; every key must be there, no other may.

    A settings class may define `problems() -> list[str]` for rules between its fields; each string
    starts with the field's name. Raises InputError with one line for each error, all at once.
    """
    if name not in params:
        raise InputError(f"{source}: section {name!r} is missing")
    section = params[name]
    if not isinstance(section, dict):
        raise InputError(
            f"{source}: {name} = {_repr.repr(section)}; allowed: a mapping of settings"
        )
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    errors = []
    for key in section:
        if key not in fields:
            errors.append(f"{source}: {name}.{str(key)[:80]} {unknown(key, fields)}")
    values = {}
    for key, field in fields.items():
        allowed = field.metadata.get("allowed", Allowed())
        if key not in section:
            text = _describe(hints[key], allowed)
            errors.append(f"{source}: {name}.{key} is missing; allowed: {text}")
            continue
        try:
            values[key] = _convert(section[key], hints[key], allowed)
        except (ValueError, OverflowError):
            text = _describe(hints[key], allowed)
            value = _repr.repr(section[key])
            errors.append(f"{source}: {name}.{key} = {value}; allowed: {text}")
    if errors:
        raise InputError("\n".join(errors))
    settings = cls(**values)
    problems = settings.problems() if hasattr(settings, "problems") else []
    if problems:
        raise InputError("\n".join(f"{source}: {name}.{problem}" for problem in problems))
    return settings
