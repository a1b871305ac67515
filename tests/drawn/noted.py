"""Which figures and columns of a run the properties read. One that none of them reads could be wrong without a failing test."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.drawn.plain_files import Run
from tests.support.stages import read


class Noted(dict[str, Any]):
    """A JSON object that adds the names of the values that are taken from it to `taken`."""

    def __init__(self, content: dict[str, Any], name: str, taken: set[str]) -> None:
        super().__init__(
            {key: noted(each, f"{name}.{key}", taken) for key, each in content.items()}
        )
        self.name = name
        self.taken = taken

    def take_all(self) -> None:
        self.taken.update(names_of(dict(self), self.name))

    def __getitem__(self, key: str) -> Any:
        self.taken.add(f"{self.name}.{key}")
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.taken.add(f"{self.name}.{key}")
        return super().get(key, default)

    def items(self) -> Any:
        self.taken.update(f"{self.name}.{key}" for key in self)
        return super().items()

    def values(self) -> Any:
        return dict(self.items()).values()

    def __eq__(self, other: object) -> bool:
        self.take_all()
        return super().__eq__(other)

    def __or__(self, other: Any) -> dict[str, Any]:
        self.take_all()
        return super().__or__(other)

    __hash__ = None  # type: ignore[assignment]


class NotedTable(pd.DataFrame):
    """A table that adds the names of the columns that are taken from it to `taken`."""

    _metadata = ("name", "taken")
    name: str
    taken: set[str]

    def __getitem__(self, key: Any) -> Any:
        found = pd.DataFrame(self)[key]
        if isinstance(found, pd.DataFrame):
            return noted_table(found, self.name, self.taken)
        self.taken.add(f"{self.name}.{key}")
        return found

    def itertuples(self, *arguments: Any, **options: Any) -> Any:
        self.taken.update(f"{self.name}.{column}" for column in self)
        return super().itertuples(*arguments, **options)

    def to_dict(self, *arguments: Any, **options: Any) -> Any:
        rows = super().to_dict(*arguments, **options)
        return [Noted(row, self.name, self.taken) for row in rows]


def noted(content: Any, name: str, taken: set[str]) -> Any:
    """Parsed JSON with Noted in place of its objects."""
    if isinstance(content, dict):
        return Noted(content, name, taken)
    if isinstance(content, list):
        return [noted(each, f"{name}.{number}", taken) for number, each in enumerate(content)]
    return content


def noted_table(content: pd.DataFrame, name: str, taken: set[str]) -> NotedTable:
    """A table as NotedTable."""
    found = NotedTable(content)
    found.name, found.taken = name, taken
    return found


def names_of(content: Any, name: str) -> Iterator[str]:
    """The numbers, or lists of them, in parsed JSON, by the keys that lead there."""
    if isinstance(content, dict):
        for key, each in dict.items(content):
            yield from names_of(each, f"{name}.{key}")
    elif isinstance(content, list) and any(isinstance(each, dict) for each in content):
        for number, each in enumerate(content):
            yield from names_of(each, f"{name}.{number}")
    elif any(isinstance(each, int | float) for each in np.ravel(content).tolist()):
        yield name


@contextlib.contextmanager
def figures_noted() -> Iterator[set[str]]:
    """Yield the names of values and columns that are taken from a run's JSON and CSV files in this block."""
    taken: set[str] = set()
    table, curve = Run.table, Run.curve

    def json(run: Run, name: str) -> Any:
        return noted(read(run.folder / f"{name}.json"), name, taken)

    def noted_table_of(run: Run, name: str) -> NotedTable:
        return noted_table(table(run, name), name, taken)

    def noted_curve(run: Run, name: str, series: str, *columns: str) -> np.ndarray:
        names = (*(columns or ("step", "tokens")), "value")
        taken.update(f"plots/{name}.{column}" for column in names)
        return curve(run, name, series, *columns)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "json", json)
        patch.setattr(Run, "curve", noted_curve)
        patch.setattr(Run, "table", noted_table_of)
        yield taken


def figures_of(folder: Path) -> set[str]:
    """The names of all figures of a run, and of the columns of its tables."""
    names: set[str] = set()
    for folder_name in ("data/evaluate", "data/beam_bench", "plots"):
        for path in (folder / folder_name).glob("*.csv"):
            table = pd.read_csv(path) if path.read_bytes().strip() else pd.DataFrame()
            columns = table.columns[table.notna().any()]
            names.update(f"{folder_name}/{path.stem}.{column}" for column in columns)
    for path in (folder / "data/figures").glob("*.json"):
        names.update(names_of(read(path), f"data/figures/{path.stem}"))
    return names
