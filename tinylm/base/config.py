"""Strict parsing of params.yaml into settings classes; all errors are reported at once, by key.

The parser is ruamel.yaml, as in DVC (YAML 1.2: `1e-3` is a number, `off` is a string), so a stage
sees exactly what DVC hashed. PyYAML would parse YAML 1.1.
"""

import contextlib
import dataclasses
import difflib
import functools
import math
import re
import reprlib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

PARAMS_FILE = "params.yaml"
S = TypeVar("S")

_repr = reprlib.Repr()
_repr.maxstring = 80
_repr.maxother = 80
_repr.maxlong = 40


class InputError(Exception):
    """Invalid input (exit code 2).

    Each line of the message names the file, the key or line, what was expected and what was found.
    """


class Problems:
    """The lines of several InputErrors, each line once."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """Inside the block an InputError ends the block alone, and its lines are kept."""
        try:
            yield
        except InputError as error:
            for line in str(error).splitlines():
                self.add(line)

    def add(self, line: str) -> None:
        """Keep a line, once."""
        if line not in self.lines:
            self.lines.append(line)

    def refuse(self) -> None:
        """Raise InputError with all lines, if there are any."""
        if self.lines:
            raise InputError("\n".join(self.lines))


def parse_yaml(text: str, name: str) -> dict[str, Any]:
    """Parse one YAML mapping as DVC does; `name` is the file's name in messages.

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
            line = mark.line + 1 if mark else 1
            problem = str(error.problem or error.context)
            if glued := _without_space(text.splitlines()[:line]):
                line, problem = glued, "expected a space after the colon"
            name = f"{name}, line {line}"
        problem = " ".join(problem.split())[:200]
        raise InputError(f"{name}: not valid YAML: {problem}") from None
    if not isinstance(value, dict):
        raise InputError(f"{name}: expected a mapping of sections, got {_repr.repr(value)}")
    return value


def _without_space(lines: list[str]) -> int | None:
    """The number of a line like `lr:3`, which lacks the space after its colon; None if there is none.

    YAML reads it as text, and often reports the error one line later: the last two are looked at.
    """
    settings = [
        n for n, line in enumerate(lines, start=1) if line.strip() and line.strip()[0] != "#"
    ]
    for number in reversed(settings[-2:]):
        if re.match(r"\s*[a-z]\w*:[^\s:/]", lines[number - 1]):
            return number
    return None


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a file that holds one YAML mapping. Raises InputError with the file and the line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: expected a UTF-8 text file: {error}") from None
    return parse_yaml(text, str(path))


def load_params(path: str | Path = PARAMS_FILE) -> dict[str, Any]:
    """Read params.yaml as DVC reads it. Raises InputError with the file and the line."""
    if not Path(path).exists():
        raise InputError(f"{path} is missing; `tinylm preset storybook` writes one")
    return read_yaml(path)


@dataclasses.dataclass(frozen=True)
class Allowed:
    """The values that a setting may have: low <= value <= high, value > above, or one of choices.

    For a tuple, the range applies to each element, and `length` is the minimum number of elements.
    auto: what the word auto stands for, if it is not 0.
    """

    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf
    choices: tuple[str, ...] = ()
    length: int = 0
    auto: int = 0

    def holds(self, number: float) -> bool:
        """Whether a number is within the range."""
        return self.low <= number <= self.high and number > self.above

    def __str__(self) -> str:
        if self.choices:
            return " or ".join([", ".join(self.choices[:-1]), self.choices[-1]])
        limits = ((">", self.above), (">=", self.low), ("<=", self.high))
        return " and ".join(f"{sign} {limit}" for sign, limit in limits if math.isfinite(limit))


def setting(default: Any = dataclasses.MISSING, **allowed: Any) -> Any:
    """A field of a settings class; the keyword arguments are those of `Allowed`."""
    metadata = {"allowed": Allowed(**allowed)}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


_TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}


def _without_null(kind: Any) -> tuple[Any, bool]:
    """(the type, whether null is allowed) for a field's annotation, such as `int | None`."""
    if typing.get_origin(kind) is not types.UnionType:
        return kind, False
    kind, _ = typing.get_args(kind)
    return kind, True


def describe_setting(kind: Any, allowed: Allowed) -> str:
    """Describe in words what a field of this type may hold."""
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
        text = f"{'auto or ' if allowed.auto else ''}{_TYPE_NAMES[kind]} {allowed}".rstrip()
    return f"{text}, or null" if nullable else text


# Each converter takes a value as parsed from YAML, and raises ValueError if it is not allowed.


def _to_type(value: Any, kind: type) -> Any:
    """An int, bool or str; isinstance would accept true as an int."""
    if type(value) is not kind:
        raise ValueError
    return value


def _to_float(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError
    try:
        number = float(value)
    except OverflowError:
        raise ValueError from None
    if not math.isfinite(number):
        raise ValueError
    return number


def _to_choice(value: Any, choices: tuple[str, ...]) -> str:
    """One of the choices; YAML parses the choices "true" and "false" as booleans."""
    if type(value) is bool:
        value = "true" if value else "false"
    if value not in choices:
        raise ValueError
    return str(value)


def _to_plain(value: Any, kind: Any, allowed: Allowed) -> Any:
    if allowed.choices:
        return _to_choice(value, allowed.choices)
    if value == "auto" and allowed.auto:
        return allowed.auto
    converted = _to_float(value) if kind is float else _to_type(value, kind)
    if kind in (int, float) and not allowed.holds(converted):
        raise ValueError
    return converted


def _to_tuple(values: Any, kind: Any, allowed: Allowed) -> tuple[Any, ...]:
    if not isinstance(values, list) or len(values) < allowed.length:
        raise ValueError
    items = tuple(_to_plain(value, kind, allowed) for value in values)
    if allowed.length and len(set(items)) < len(items):
        raise ValueError
    return items


def _convert(value: Any, kind: Any, allowed: Allowed) -> Any:
    """Convert a YAML value to the type of its field. Raises ValueError if it is not allowed."""
    kind, nullable = _without_null(kind)
    if value is None and nullable:
        return None
    if typing.get_origin(kind) is tuple:
        return _to_tuple(value, typing.get_args(kind)[0], allowed)
    return _to_plain(value, kind, allowed)


def unknown(key: object, names: Iterable[str]) -> str:
    """The complaint about a key that is not one of the names, with the closest of them."""
    near = difflib.get_close_matches(str(key)[:80], list(names), n=1)
    return f"is unknown; did you mean {near[0]!r}?" if near else "is unknown"


@functools.cache
def _types_of(cls: Any) -> dict[str, Any]:
    """{field: its type} of a settings class."""
    return typing.get_type_hints(cls)


def read_section(
    params: Mapping[str, Any], name: str, cls: type[S], source: str = PARAMS_FILE
) -> S:
    """Parse params[name] into the settings class `cls`; missing and unknown keys are errors.

    A settings class may define `problems() -> list[str]` for rules between its fields; each string
    starts with the field's name. Raises InputError with one line for each error.
    """
    if name not in params:
        raise InputError(f"{source}: section {name!r} is missing")
    section = params[name]
    if not isinstance(section, dict):
        raise InputError(f"{source}: {name}: expected a mapping, got {_repr.repr(section)}")
    hints = _types_of(cls)  # type: ignore[arg-type]
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    errors = []
    for key in section:
        if key not in fields:
            errors.append(f"{source}: {name}.{str(key)[:80]} {unknown(key, fields)}")
    values = {}
    for key, field in fields.items():
        allowed = field.metadata.get("allowed", Allowed())
        if key not in section:
            expected = describe_setting(hints[key], allowed)
            errors.append(f"{source}: {name}.{key} is missing: expected {expected}")
            continue
        try:
            values[key] = _convert(section[key], hints[key], allowed)
        except ValueError:
            value = _repr.repr(section[key])
            expected = describe_setting(hints[key], allowed)
            errors.append(f"{source}: {name}.{key}: expected {expected}, got {value}")
    if errors:
        raise InputError("\n".join(errors))
    settings = cls(**values)
    problems = settings.problems() if hasattr(settings, "problems") else []
    if problems:
        raise InputError("\n".join(f"{source}: {name}.{problem}" for problem in problems))
    return settings
