"""Arithmetic over recorded figures: the rules of the ledger and the texts that are filled from files.

A path such as `published.A.cache[0].tokens_per_s` or `runs.word_50k.train["tokens"]` walks through mappings and
lists; `_` in a name also finds `-`. Figures that were recorded with several seeds travel together as `Seeds`: in
arithmetic they count as their mean, the functions below see each of them.
"""

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from tinylm.reporting.seeds import FUNCTIONS, BadExpression, Missing, Seeds, child, number

_PLACE = re.compile(r"\{([^{}:]+)(?::([^{}]*))?\}")
_DEEPEST = 200  # nodes of one expression
_BIGGEST = 1e300

_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_PATHS = (ast.Expression, ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Load, ast.Call)
_LOGIC = (ast.BinOp, ast.UnaryOp, ast.USub, ast.Compare, ast.BoolOp, ast.And, ast.Or, ast.Not)
_ALLOWED = (*_PATHS, *_LOGIC, *_ARITHMETIC, *_COMPARISONS)


def _comparable(value: Any) -> Any:
    return value if isinstance(value, str) else number(value)


@functools.cache
def parse(text: str) -> ast.expr:
    """The tree of an expression. Raises BadExpression where it is more than arithmetic over paths."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError) as error:
        raise BadExpression(f"{text!r}: {error}") from None
    nodes = list(ast.walk(tree))
    for node in nodes:
        if not isinstance(node, _ALLOWED):
            raise BadExpression(f"{text!r}: {type(node).__name__}; allowed: arithmetic, comparisons, paths")
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS and not node.keywords
        ):
            raise BadExpression(f"{text!r}: a call; allowed: {', '.join(FUNCTIONS)}")
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            raise BadExpression(f"{text!r}: {node.attr}")
    if len(nodes) > _DEEPEST:
        raise BadExpression(f"{text[:60]!r}...: longer than {_DEEPEST} nodes")
    return tree.body


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression over `names`. Raises Missing for a path without a figure, BadExpression else."""
    try:
        return _value(parse(text), names)
    except ZeroDivisionError:
        raise Missing(f"{text}: a division by zero") from None
    except (TypeError, OverflowError, KeyError, AttributeError) as error:
        raise BadExpression(f"{text!r}: {error}") from None
    except BadExpression as error:
        raise BadExpression(f"{text!r}: {error}") from None


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return child(names, name, name)
        case ast.Attribute(value=inner, attr=name):
            return child(_value(inner, names), name, ast.unparse(node))
        case ast.Subscript(value=inner, slice=place):
            key = _value(place, names)
            return child(_value(inner, names), key, ast.unparse(node))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -number(_value(inner, names))
        case ast.UnaryOp(operand=inner):
            return not _value(inner, names)
        case ast.BinOp(left=left, op=op, right=right):
            result = _ARITHMETIC[type(op)](number(_value(left, names)), number(_value(right, names)))
            if abs(result) > _BIGGEST:
                raise BadExpression("too large")
            return result
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, names) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_value(part, names) for part in parts)
        case ast.Compare(left=left, ops=ops, comparators=others):
            values = [_comparable(_value(part, names)) for part in (left, *others)]
            return all(_COMPARISONS[type(op)](a, b) for op, a, b in zip(ops, values, values[1:]))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return FUNCTIONS[name](*(_value(argument, names) for argument in arguments))
    raise BadExpression(f"{ast.unparse(node)}: not allowed")


def _shown(value: Any, form: str) -> str:
    if isinstance(value, Seeds) and all(isinstance(item, str | bool) for item in value.values):
        return ", ".join(_shown(item, form) for item in dict.fromkeys(value.values))
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(_shown(item, form) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = format(number(value), form or ",").replace("e-0", "e-")
    return text.replace("-", "\N{MINUS SIGN}", 1) if text.startswith("-") else text


def fill(template: str, names: Mapping[str, Any]) -> str:
    """A text with each `{expression}` or `{expression:format}` replaced by its value. Raises as `evaluate`."""
    return _PLACE.sub(lambda place: _shown(evaluate(place[1], names), place[2] or ""), template)


def paths(text: str) -> list[tuple[str, ...]]:
    """(first, second, ...) name of every path of an expression, up to the first part that is no name or text."""
    return [_parts(node) for node in ast.walk(parse(text)) if isinstance(node, ast.Attribute | ast.Subscript)]


def _parts(node: ast.expr) -> tuple[str, ...]:
    match node:
        case ast.Name(id=name):
            return (name,)
        case ast.Attribute(value=inner, attr=name):
            return (*_parts(inner), name)
        case ast.Subscript(value=inner, slice=ast.Constant(value=str(name))):
            return (*_parts(inner), name)
        case ast.Subscript(value=inner):
            return _parts(inner)
    return ("",)


def places(template: str) -> list[str]:
    """The expressions of a template."""
    return [place[1] for place in _PLACE.finditer(template)]


def without_places(template: str) -> str:
    """The template's own words."""
    return _PLACE.sub("", template)
