"""Recorded figures as expressions see them: branches of files, with one value for each seed side by side."""

import contextlib
import functools
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


class Missing(Exception):
    """A path leads to no figure (yet); the message is the path."""


class BadExpression(ValueError):
    """The text is no expression of the kind that is allowed here; a fault of whoever wrote it."""


@dataclass(frozen=True)
class Seeds:
    """The same figure, or the same branch of figures, for each recorded seed."""

    values: tuple[Any, ...]


def _numbers(value: Any) -> list[float]:
    """Every seed's number."""
    values = value.values if isinstance(value, Seeds) else (value,)
    if not values or any(isinstance(item, str) or not isinstance(item, int | float) for item in values):
        raise BadExpression(f"{value!r:.60} is no number")
    return [float(item) for item in values]


def number(value: Any) -> float | int:
    """A number as it stands (a whole number stays whole), the mean over seeds of several."""
    if isinstance(value, int | float):
        return value
    found = _numbers(value)
    if len(found) == 1 and isinstance(value, Seeds):
        return value.values[0]
    return statistics.fmean(found)


def spread(value: Any) -> float:
    """Standard deviation over seeds. Raises Missing with fewer than two."""
    found = _numbers(value)
    if len(found) < 2:
        raise Missing("a second seed")
    return statistics.stdev(found)


def _pick(rows: Any, *pairs: Any) -> Any:
    """pick(rows, "cache", True, "new_tokens", 40): the first row of a list that holds these values."""
    if isinstance(rows, Seeds):
        return _gathered([functools.partial(_pick, item, *pairs) for item in rows.values], "pick")
    wanted = dict(zip(pairs[::2], pairs[1::2], strict=True))
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, Mapping) and all(row.get(key) == value for key, value in wanted.items()):
            return row
    raise Missing(f"a row with {', '.join(f'{key} {value}' for key, value in wanted.items())}")


def _picks(rows: Any, *pairs: Any) -> list[Any]:
    """picks(rows, "cache", True): all rows of a list that hold these values, of the first seed."""
    first = rows.values[0] if isinstance(rows, Seeds) else rows
    wanted = dict(zip(pairs[::2], pairs[1::2], strict=True))
    return [row for row in first if all(row.get(key) == value for key, value in wanted.items())]


def _at(curve: Any, step: float) -> Any:
    """at(curve, step): the value of a curve [[step, tokens, value], ...] after exactly so many updates."""
    if isinstance(curve, Seeds):
        return _gathered([functools.partial(_at, item, step) for item in curve.values], "at")
    for place, _, value in curve:
        if place == step:
            return value
    raise Missing(f"the value at step {step:g}")


def _gathered(reads: list[Callable[[], Any]], what: str) -> Seeds:
    """What the reads give, those left out that find nothing; Missing where none finds anything."""
    found = []
    for read in reads:
        try:
            found.append(read())
        except Missing as error:
            what = str(error)
    if not found:
        raise Missing(what)
    return Seeds(tuple(found))


def _count(value: Any) -> int:
    """Rows of a list or mapping, of the first seed's where there are several."""
    first = value.values[0] if isinstance(value, Seeds) else value
    return len(first) if isinstance(first, list | Mapping) else 1


def _exceeding(table: Any, key: str, other: str, margin: float = 0.0) -> Any:
    """exceeding(table, "score", "baseline", 0.1): how many rows of {name: row} have key > other + margin."""
    if isinstance(table, Seeds):
        return Seeds(tuple(_exceeding(item, key, other, margin) for item in table.values))
    return sum(row[key] > row[other] + margin for row in table.values() if key in row and other in row)


def child(value: Any, key: str | int, path: str) -> Any:
    """One step of a path."""
    if isinstance(value, Seeds):
        return _gathered([functools.partial(child, item, key, path) for item in value.values], path)
    if isinstance(value, Mapping) and isinstance(key, str):
        for name in (key, key.replace("_", "-")):
            if value.get(name) is not None:
                return value[name]
    if isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
        return value[key]
    raise Missing(path)


def _rows(table: Any) -> dict[str, Any]:
    """The rows of a mapping or a list by name or number, those of several seeds as `Seeds`."""
    first = table.values[0] if isinstance(table, Seeds) else table
    keys: list[Any] = list(first) if isinstance(first, Mapping) else list(range(len(first)))
    return {str(key): child(table, key, str(key)) for key in keys}


def _means(table: Any, key: str) -> dict[str, float]:
    """{name: mean over seeds} of a figure for the rows of a table that have it."""
    found = {}
    for name, row in _rows(table).items():
        with contextlib.suppress(Missing, BadExpression):
            found[name] = float(number(child(row, key, key)))
    if not found:
        raise Missing(key)
    return found


def _best(table: Any, key: str) -> str:
    """best(table, "held_out_loss"): the name of the row where the figure is lowest."""
    means = _means(table, key)
    return min(means, key=lambda name: means[name])


def _listing(table: Any, key: str, form: str = ".3f") -> str:
    """listing(table, "held_out_loss"): every row's mean and standard deviation in one line."""
    rows, parts = _rows(table), []
    for name in _means(table, key):
        value = child(rows[name], key, key)
        text = format(number(value), form)
        with contextlib.suppress(Missing):
            text += f" ± {format(spread(value), form)}"
        parts.append(f"{name}: {text}")
    return ", ".join(parts)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mean": number,
    "spread": spread,
    "seeds": lambda value: len(value.values) if isinstance(value, Seeds) else 1,
    "count": _count,
    "low": lambda value: min(_numbers(value)),
    "high": lambda value: max(_numbers(value)),
    "pick": _pick,
    "picks": _picks,
    "pick_key": lambda table, key: child(table, str(key), str(key)),
    "at": _at,
    "exceeding": _exceeding,
    "best": _best,
    "listing": _listing,
    "lowest": lambda table, key: min(_means(table, key).values()),
    "highest": lambda table, key: max(_means(table, key).values()),
    "last": lambda rows: child(rows, -1, "last"),
    "abs": lambda value: abs(number(value)),
    "min": lambda *values: min(map(number, values)),
    "max": lambda *values: max(map(number, values)),
    "exp": lambda value: math.exp(number(value)),
    "log": lambda value: math.log(number(value)),
    "ceil": lambda value: math.ceil(number(value)),
    "floor": lambda value: math.floor(number(value)),
}
