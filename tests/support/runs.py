"""Runs and results made by hand."""

import dataclasses
import types
import typing
from typing import Any, TypeVar

from tinylm.run.finished_run import FinishedRun

T = TypeVar("T")


def part(kind: type[T], **fields: Any) -> T:
    """A result with the fields that a test gives. The others are empty: None, 0, "" or no rows."""
    hints = typing.get_type_hints(kind)
    assert fields.keys() <= hints.keys(), f"{kind.__name__} has no {fields.keys() - hints.keys()}"
    return kind(**{name: fields.get(name, _empty(hint)) for name, hint in hints.items()})


def _empty(hint: Any) -> Any:
    if isinstance(hint, types.UnionType):
        return None
    if dataclasses.is_dataclass(hint):
        return part(hint)
    kind = typing.get_origin(hint) or hint
    return kind()


def altered(run: FinishedRun, **values: Any) -> FinishedRun:
    """The run with other values. Names are paths with __ for a dot, as in evaluate__truth=None."""
    changed: Any = run
    for place, value in values.items():
        changed = _with(changed, place.split("__"), value)
    return changed


def _with(part_of: Any, place: list[str], value: Any) -> Any:
    name, *rest = place
    if isinstance(part_of, dict):
        return part_of | {name: _with(part_of[name], rest, value) if rest else value}
    inner = _with(getattr(part_of, name), rest, value) if rest else value
    return dataclasses.replace(part_of, **{name: inner})
