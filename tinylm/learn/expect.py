"""Tools for a check.py: compare an answer with an oracle's, and show where they differ.

    def adds(add):
        \"\"\"adds two numbers\"\"\"
        expect(add, {"a": 2, "b": 3}, 5, {"it multiplies": 6})

The counterexample is the first call with a wrong answer, so a check begins with small numbers.
"""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

import torch

TOLERANCE = 1e-5
LONGEST = 600  # characters of a value that is shown
_DECIMAL = re.compile(r"\d+\.\d+(e[+-]\d+)?|\d+e[+-]\d+")
_USUAL_TYPES = ("float64", "int64", "bool")  # of tensors; others are shown


class Wrong(Exception):
    """A property does not hold: the counterexample, line by line, and what it suggests."""

    def __init__(self, lines: list[str], suggestion: str = "") -> None:
        super().__init__("; ".join(lines))
        self.lines = lines
        self.suggestion = suggestion


def require(condition: Any, line: str, suggestion: str = "", **values: Any) -> None:
    """Raise Wrong with the values and the line unless the condition holds."""
    if not condition:
        lines = [f"{name} = {shown(value)}" for name, value in values.items()]
        raise Wrong([*lines, line], suggestion)


def shown(value: Any, digits: int = 4) -> str:
    """A value as text, with numbers of this many digits, cut if it is long."""
    kind = ""
    if isinstance(value, torch.Tensor):
        name = str(value.dtype).removeprefix("torch.")
        kind = f"  {tuple(value.shape)}{'' if name in _USUAL_TYPES else ' ' + name}"
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    text = repr(_plain(value))
    text = _DECIMAL.sub(lambda number: f"{float(number[0]):.{digits}g}", text) + kind
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _plain(value: Any) -> Any:
    """The value with lists of numbers instead of tensors."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return value


def _leaves(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """(where, number, text or type) of all parts of a value, in their order."""
    if isinstance(value, torch.Tensor):
        yield f"{at} type", torch.Tensor
        yield f"{at} shape", tuple(value.shape)
        yield f"{at} dtype", value.dtype
        value = value.tolist()
    if isinstance(value, dict):
        value = list(value.items())
    if not isinstance(value, list | tuple):
        yield at, value
        return
    yield f"{at} type", type(value)
    for index, item in enumerate(value):
        yield from _leaves(item, f"{at}[{index}]")
    yield f"{at}[{len(value)}]", "the end"


def _is_close(mine: Any, right: Any, tolerance: float) -> bool:
    if not isinstance(right, float) or not isinstance(mine, int | float):
        return type(mine) is type(right) and mine == right
    both_nan = mine != mine and right != right
    return mine == right or both_nan or abs(mine - right) <= tolerance * max(1.0, abs(right))


def difference(answer: Any, expected: Any, tolerance: float = TOLERANCE) -> str:
    """Where an answer first differs from what is expected, in words; "" if nowhere."""
    for (at, mine), (_, right) in zip_longest(
        _leaves(answer), _leaves(expected), fillvalue=("", "")
    ):
        if not _is_close(mine, right, tolerance):
            digits = 4 if shown(mine) != shown(right) else 9
            where = f" at {at.strip()}" if at else ""
            return (
                f"first difference{where}: {shown(mine, digits)} instead of {shown(right, digits)}"
            )
    return ""


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
    answer = call(*arguments.values())
    lines = [f"{name} = {shown(value)}" for name, value in given.items()]
    for name, value in given.items():
        if not callable(value) and difference(arguments[name], value, 0.0):
            lines.append(f"after the call {name} = {shown(arguments[name])}")
            raise Wrong(lines, f"your code changes its input {name}; work on a copy")
    problem = difference(answer, expected, tolerance)
    if not problem:
        return answer
    lines += [f"expected {shown(expected)}", f"yours    {shown(answer)}", problem]
    fitting = [
        mistake
        for mistake, value in (suspects or {}).items()
        if not difference(answer, value, tolerance)
    ]
    raise Wrong(lines, (fitting or [_usual(answer, expected)])[0])


def _usual(answer: Any, expected: Any) -> str:
    """A suggestion for mistakes that can occur in any exercise."""
    if answer is None:
        return "your function returns nothing: is there a `return`?"
    if not isinstance(answer, torch.Tensor):
        return ""
    if not isinstance(expected, torch.Tensor):
        return "return plain Python numbers: .item() and .tolist() make them"
    if answer.dtype != expected.dtype:
        return "keep the input's dtype: make new tensors with x.new_zeros(...) or dtype=x.dtype"
    if answer.isinf().any() and not expected.isinf().any():
        return "inf comes from exp of a large number, ln 0 or a division by 0"
    if answer.isnan().any() and not expected.isnan().any():
        return "nan comes from 0/0, inf - inf or a row in which everything is masked"
    return ""


def rows(*values: Any, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """A small tensor in float64."""
    return torch.tensor(values, dtype=dtype)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    """Random numbers of one digit after the point, which can be followed by hand.  -> float64"""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-20, 21, shape, generator=generator).double() / 10
