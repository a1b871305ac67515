"""Tools for a check.py: compare an answer with an oracle's, and show where they differ.

    def adds(add):
        \"\"\"adds two numbers\"\"\"
        expect(add, {"a": 2, "b": 3}, 5, {"it multiplies": 6})

The counterexample is the first call with a wrong answer, so a check begins with small numbers.
"""

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

TOLERANCE = 1e-5
LONGEST = 600  # characters of a value that is shown


class Wrong(Exception):
    """A property does not hold: the counterexample, line by line, and what it suggests."""

    def __init__(self, lines: list[str], suggestion: str = "") -> None:
        super().__init__("; ".join(lines))
        self.lines = lines
        self.suggestion = suggestion


def require(condition: Any, line: str, suggestion: str = "", **values: Any) -> None:
    """Raise Wrong with the values and the line unless the condition holds."""
    if not condition:
        lines = [f"{name} = {as_short_text(value)}" for name, value in values.items()]
        raise Wrong([*lines, line], suggestion)


def as_short_text(value: Any, digits: int = 4) -> str:
    """A value as text, with numbers of this many digits, cut if it is long."""
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    text = repr(_rounded(value, digits))
    if isinstance(value, torch.Tensor):
        text += f"  {tuple(value.shape)} {value.dtype}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _rounded(value: Any, digits: int) -> Any:
    """The value with lists instead of tensors, and numbers of this many digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, torch.Tensor):
        return _rounded(value.tolist(), digits)
    if isinstance(value, dict):
        return {key: _rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_rounded(item, digits) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def _is_close(mine: Any, right: Any, tolerance: float) -> bool:
    if not isinstance(right, float) or not isinstance(mine, int | float):
        return type(mine) is type(right) and mine == right
    both_nan = mine != mine and right != right
    return both_nan or math.isclose(mine, right, rel_tol=tolerance, abs_tol=tolerance)


def difference(answer: Any, expected: Any, tolerance: float = TOLERANCE, at: str = "") -> str:
    """Where an answer first differs from what is expected, in words; "" if nowhere."""
    parts: list[tuple[str, Any, Any]] = []
    if isinstance(answer, torch.Tensor) and isinstance(expected, torch.Tensor):
        parts = [
            (f"{at} shape", answer.shape, expected.shape),
            (f"{at} dtype", answer.dtype, expected.dtype),
            (at, answer.tolist(), expected.tolist()),
        ]
    elif isinstance(expected, dict) and isinstance(answer, type(expected)):  # or a Counter
        parts = [(at, list(answer.items()), list(expected.items()))]
    elif isinstance(expected, list | tuple) and isinstance(answer, type(expected)):  # or named
        for index, (mine, right) in enumerate(zip(answer, expected, strict=False)):
            parts.append((f"{at}[{index}]", mine, right))
        parts.append((f"{at} length", len(answer), len(expected)))
    elif not _is_close(answer, expected, tolerance):
        where = f" at {at.strip()}" if at else ""
        return f"first difference{where}: {as_short_text(answer, 7)} instead of {as_short_text(expected, 7)}"
    problems = (difference(mine, right, tolerance, where) for where, mine, right in parts)
    return next(filter(None, problems), "")


def expect(
    call: Callable[..., Any],
    given: Mapping[str, Any],
    expected: Any,
    suspects: Mapping[str, Any] | None = None,
    tolerance: float = TOLERANCE,
) -> Any:
    """Call the student's function; returns its answer. Raises Wrong unless it is as expected.

    given: its arguments by name, passed by position. They may not change. suspects: {a common
    mistake in words: the answer that it gives}; the first that fits is the suggestion.
    """
    arguments = copy.deepcopy(dict(given))
    lines = [f"{name} = {as_short_text(value)}" for name, value in given.items()]
    try:
        answer = call(*arguments.values())
    except Exception as error:
        error.add_note("\n".join(lines))
        raise
    for name, value in given.items():
        if not callable(value) and difference(arguments[name], value, 0.0):
            lines.append(f"after the call {name} = {as_short_text(arguments[name])}")
            raise Wrong(lines, f"your code changes its input {name}; work on a copy")
    problem = difference(answer, expected, tolerance)
    if not problem:
        return answer
    lines += [f"expected {as_short_text(expected)}", f"yours    {as_short_text(answer)}", problem]
    for mistake, value in (suspects or {}).items():
        if not difference(answer, value, tolerance):
            raise Wrong(lines, mistake)
    raise Wrong(lines)


def rows(*values: Any) -> torch.Tensor:
    """A small tensor in float64."""
    return torch.tensor(values, dtype=torch.float64)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    """Random numbers of one digit after the point, which can be followed by hand.  -> float64"""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-20, 21, shape, generator=generator).double() / 10
