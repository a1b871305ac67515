"""Fewer cases than a product, where no single one is special."""

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any


def pairs(*parameters: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Rows of one value of each parameter, in which every two values of two parameters meet at least once.

    Chosen greedily from the product, always the same: each row is the first of those with most new pairs.
    """
    values = [list(parameter) for parameter in parameters]
    met = {
        row: set(combinations(enumerate(row), 2))
        for row in product(*(range(len(parameter)) for parameter in values))
    }
    left, chosen = set().union(*met.values()), []
    while left:
        row = max(met, key=lambda row: len(met[row] & left))
        left -= met[row]
        chosen.append(tuple(parameter[index] for parameter, index in zip(values, row, strict=True)))
    return chosen
