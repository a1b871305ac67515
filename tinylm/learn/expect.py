"""What a check.py is written with: compare an answer with an oracle's, and say where they differ.

    def adds(add):
        \"\"\"adds two numbers\"\"\"
        expect(add, {"a": 2, "b": 3}, 5, {"it multiplies": 6})

The counterexample is the first call with a wrong answer, so a check begins with small numbers.
"""

import copy
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
        lines = [f"{name} = {shown(value)}" for name, value in values.items()]
        raise Wrong([*lines, line], suggestion)


def shown(value: Any) -> str:
    """A value in numbers of four digits, cut if it is long."""
    text = _numbers(value.tolist()) if isinstance(value, torch.Tensor) else _numbers(value)
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        is_usual = kind in ("float64", "int64", "bool")
        text = f"{text}  {tuple(value.shape)}{'' if is_usual else ' ' + kind}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _numbers(value: Any) -> str:
    """Lists, tuples and dicts of numbers, with short decimals."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return f"[{', '.join(map(_numbers, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_numbers(item)}' for key, item in value.items())}}}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_numbers, value))})"
    if isinstance(value, torch.Tensor):
        return _numbers(value.tolist())
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return repr(value)


def difference(answer: Any, expected: Any, tolerance: float = TOLERANCE, at: str = "") -> str:
    """Where an answer first differs from what is expected, in words; "" if nowhere."""
    if isinstance(expected, torch.Tensor):
        return _tensors_differ(answer, expected, tolerance, at)
    where = f" at {at}" if at else ""
    if isinstance(expected, dict) and isinstance(answer, dict):
        answer = list(answer.values())
        expected = list(expected.values())
    if isinstance(expected, list | tuple):
        if not isinstance(answer, type(expected)):
            return f"a {type(answer).__name__}{where} instead of a {type(expected).__name__}"
        for index, (mine, theirs) in enumerate(zip(answer, expected, strict=False)):
            text = difference(mine, theirs, tolerance, f"{at}[{index}]")
            if text:
                return text
        if len(answer) != len(expected):
            return f"{len(answer)} entries{where} instead of {len(expected)}"
        return ""
    if isinstance(expected, float) and isinstance(answer, int | float | torch.Tensor):
        if isinstance(answer, torch.Tensor) and answer.numel() != 1:
            return f"a tensor of shape {tuple(answer.shape)}{where} instead of one number"
        if abs(float(answer) - expected) <= tolerance * max(1.0, abs(expected)):
            return ""
        return f"{shown(float(answer))}{where} instead of {shown(expected)}"
    if type(answer) is type(expected) and answer == expected:
        return ""
    return f"{shown(answer)}{where} instead of {shown(expected)}"


def _tensors_differ(answer: Any, expected: torch.Tensor, tolerance: float, at: str) -> str:
    where = f" at {at}" if at else ""
    if not isinstance(answer, torch.Tensor):
        return f"a {type(answer).__name__}{where} instead of a tensor"
    if answer.shape != expected.shape:
        return f"shape {tuple(answer.shape)}{where} instead of {tuple(expected.shape)}"
    if answer.dtype != expected.dtype:
        return f"dtype {answer.dtype}{where} instead of {expected.dtype}"
    mine = answer.detach().double()
    theirs = expected.detach().double()
    is_close = torch.isclose(mine, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)
    if is_close.all():
        return ""
    index = (~is_close).nonzero()[0].tolist()
    cell = "".join(f"[{number}]" for number in index)
    values = f"{shown(mine[tuple(index)].item())} instead of {shown(theirs[tuple(index)].item())}"
    return f"first difference at {at}{cell or 'the only number'}: {values}"


def expect(
    call: Callable[..., Any],
    given: Mapping[str, Any],
    expected: Any,
    suspects: Mapping[str, Any] | None = None,
    tolerance: float = TOLERANCE,
) -> Any:
    """Call the student's function; returns its answer. Raises Wrong unless it is as expected.

    given: its arguments by name, passed by position. They may not change. suspects: {what a usual
    mistake is: the answer that it gives}; the first that fits is the suggestion.
    """
    arguments = {name: _copied(value) for name, value in given.items()}
    answer = call(*arguments.values())
    call_lines = [f"{name} = {shown(value)}" for name, value in given.items()]
    for name, value in given.items():
        if not callable(value) and difference(arguments[name], value, 0.0):
            lines = [*call_lines, f"after the call {name} = {shown(arguments[name])}"]
            raise Wrong(lines, f"your code changes its input {name}; work on a copy")
    problem = difference(answer, expected, tolerance)
    if not problem:
        return answer
    lines = [f"expected {shown(expected)}", f"yours    {shown(answer)}", problem]
    for mistake, value in (suspects or {}).items():
        if not difference(answer, value, tolerance):
            raise Wrong([*call_lines, *lines], mistake)
    raise Wrong([*call_lines, *lines], _usual(answer, expected))


def _copied(value: Any) -> Any:
    """A copy that the student may spoil."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    return value if callable(value) else copy.deepcopy(value)


def _usual(answer: Any, expected: Any) -> str:
    """A suggestion for mistakes that any exercise can have."""
    if answer is None:
        return "your function returns nothing: is there a `return`?"
    if isinstance(answer, torch.Tensor) and isinstance(expected, torch.Tensor):
        if answer.shape == expected.shape and answer.dtype != expected.dtype:
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
