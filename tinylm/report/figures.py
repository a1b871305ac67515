"""Published and recorded figures, read by name: `ours.train.held_out_loss`, `theirs.beams[0].bleu`.

A figure recorded with several seeds is a `Mean`: a number that also keeps the figure of each seed. A figure that is not
recorded is not an error but an empty `Figures`, and so is whatever is computed from it. In a text it is written as
`GAP`; a condition on it raises `Missing`.
"""

import re
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

GAP = "\N{REPLACEMENT CHARACTER}"  # in a text: a figure that is not recorded
_NEGATIVE, _EXPONENT = re.compile(r"(?<![\w.])-(?=[\d.])"), re.compile(r"(?<=\de-)0")


class Missing(Exception):
    """Something depends on a figure that is not recorded."""


class Mean(float):
    """The mean of a figure over several seeds; values: the figure of each."""

    values: tuple[float, ...]

    def __new__(cls, values: list[float]) -> "Mean":
        self = super().__new__(cls, statistics.fmean(values))
        self.values = tuple(values)
        return self


class Figures:
    """The same branch of recorded figures for each seed; empty if it is not recorded.

    `_` in a name also finds `-`. Truth values are read as "yes" and "no".
    """

    def __init__(self, *branches: Any) -> None:
        self._branches = branches

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: str | int) -> Any:
        return self._each(lambda branch: _child(branch, key))

    def __iter__(self) -> Iterator[Any]:
        """The items of a list, as many as the first seed has."""
        return (self[number] for number in range(len(first_seed(self))))

    def __format__(self, form: str) -> str:
        if self._branches and isinstance(self._branches[0], list):
            return ", ".join(format(item, form) for item in self._branches[0])
        self._absent()
        return GAP

    def __bool__(self) -> bool:
        raise Missing

    def _each(self, read: Callable[[Any], Any]) -> Any:
        """What `read` gives for each seed's branch, as one figure or branch; None if this seed has none."""
        present = [value for value in map(read, self._branches) if value is not None]
        if len(present) == 1 and isinstance(present[0], Figures):
            return present[0]
        if not present or isinstance(present[0], Mapping | list):
            return Figures(*present)
        if isinstance(present[0], bool | str):
            words = (
                ("no", "yes")[value] if isinstance(value, bool) else value for value in present
            )
            return ", ".join(dict.fromkeys(words))
        return present[0] if len(present) == 1 else Mean(present)

    def _absent(self, *_: Any) -> Any:
        """Whatever is computed from a figure that is not recorded is not recorded either."""
        if self._branches:
            raise TypeError(f"{self._branches[0]!r:.60} is no figure")
        return Figures()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = (
        _absent
    )
    __abs__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _absent
    __hash__ = None  # type: ignore[assignment]


def _child(branch: Any, key: str | int) -> Any:
    if isinstance(branch, Mapping):
        value = branch.get(str(key))
        return branch.get(str(key).replace("_", "-")) if value is None else value
    inside = isinstance(branch, list) and isinstance(key, int) and -len(branch) <= key < len(branch)
    return branch[key] if inside else None


def is_recorded(value: Any) -> bool:
    """Whether there is such a figure or branch of figures."""
    return not isinstance(value, Figures) or bool(value._branches)


def per_seed(branch: Figures, read: Callable[[Any], Any]) -> Any:
    """The mean over seeds of a figure that `read` makes of each seed's branch, None if it finds none."""
    return branch._each(read)


def pick(rows: Figures, **wanted: Any) -> Any:
    """The first row of a list that holds these values: pick(rows, cache=True, new_tokens=40)."""

    def matching(branch: Any) -> Any:
        rows = branch if isinstance(branch, list) else []
        return next(
            (row for row in rows if all(row.get(key) == value for key, value in wanted.items())),
            None,
        )

    return per_seed(rows, matching)


def at(curve: Figures, step: int) -> Any:
    """The value of a curve [[step, tokens, value], ...] after exactly this many updates."""
    return per_seed(
        curve, lambda points: next((value for place, _, value in points if place == step), None)
    )


def ratio(value: Any, other: Any) -> Any:
    """value / other, not recorded if the other is zero."""
    return value / other if not is_recorded(other) or other != 0 else Figures()


def values(figure: Any) -> tuple[float, ...]:
    """A figure of each seed; empty if it is not recorded."""
    return figure.values if isinstance(figure, Mean) else (figure,) if is_recorded(figure) else ()


def spread(figure: Any) -> Any:
    """Standard deviation over seeds, not recorded with fewer than two."""
    return statistics.stdev(values(figure)) if len(values(figure)) > 1 else Figures()


def first_seed(branch: Figures) -> Any:
    """The branch as the first seed has it, in JSON's types; an empty list if it is not recorded."""
    return next(iter(branch._branches), [])


def count(rows: Figures) -> Any:
    """How many items a list has, for the first seed."""
    return len(first_seed(rows)) if is_recorded(rows) else rows


def column(table: Figures, key: str) -> dict[str, Any]:
    """{name: figure} of the rows of a table, a mapping or a list, that have the figure."""
    first = first_seed(table)
    rows = {
        str(name): table[name]
        for name in (first if isinstance(first, Mapping) else range(len(first)))
    }
    present = {name: row[key] for name, row in rows.items() if isinstance(row, Figures)}
    return {name: value for name, value in present.items() if is_recorded(value)}


def lowest(table: Figures, key: str) -> Any:
    """The lowest of a table's figures."""
    return min(map(float, column(table, key).values()), default=Figures())


def highest(table: Figures, key: str) -> Any:
    """The highest of a table's figures."""
    return max(map(float, column(table, key).values()), default=Figures())


def best(table: Figures, key: str) -> str:
    """The name of the row whose figure is lowest."""
    present = column(table, key)
    return min(present, key=lambda name: present[name], default=GAP)


def listing(table: Figures, key: str) -> str:
    """Every row's mean, and standard deviation over seeds, in one line."""
    present = {name: (value, spread(value)) for name, value in column(table, key).items()}
    parts = (
        f"{name}: {value:.3f}" + (f" ± {std:.3f}" if is_recorded(std) else "")
        for name, (value, std) in present.items()
    )
    return ", ".join(parts) or GAP


def typeset(text: str) -> str:
    """A text with minus signs before negative numbers, and 3e-5 for 3e-05."""
    return _EXPONENT.sub("", _NEGATIVE.sub("\N{MINUS SIGN}", text))


def cache_runs(ours: Figures, new_tokens: int) -> tuple[Any, Any]:
    """From stage kv_bench, at one length: without the KV cache, with it."""
    settings = ours.kv_bench_time.settings
    without, cached = (
        pick(settings, cache=cache, new_tokens=new_tokens) for cache in (False, True)
    )
    return without, cached


def checkpoint_runs(ours: Figures, layers: int) -> tuple[Any, Any]:
    """From stage ckpt_bench, at one depth: without gradient checkpointing, with it."""
    settings = ours.ckpt_bench_time.settings
    plain, recomputing = (
        pick(settings, recompute=recompute, layers=layers) for recompute in (False, True)
    )
    return plain, recomputing
