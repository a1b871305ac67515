"""Published and recorded results, and the check that a number in a text stands in the record it names.

- published.yaml: the numbers of the published systems, as they print them;
- runs/NAME.json: a recorded run of a preset, its seeds side by side (`python -m studies.record`);
- results/NAME.json: a study's result (`python -m studies.study`).

An entry of ledger.yaml and a row of comparison.yaml names its numbers by their place: `quotes` in published.yaml,
`numbers` in a record. A place is a path of keys, such as `train/held_out_perplexity`. In a record the number is the
mean over seeds.
"""

import functools
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tinylm.base.config import load_params
from tinylm.base.files import read_json

FOLDER = Path(__file__).parent
RUNS = "studies/runs"
RESULTS = "studies/results"
SYSTEMS = ("assignment", "A", "B", "D", "E")
DIGITS = 6  # to which a number in a text is written


@functools.cache
def read(name: str) -> dict[str, Any]:
    """The content of a YAML file of this folder. Raises InputError."""
    return load_params(FOLDER / name)


def published() -> dict[str, Any]:
    """The numbers of the published systems by name."""
    return read("published.yaml")


@functools.cache
def _record(name: str) -> dict[str, Any]:
    return read_json(FOLDER / f"{name}.json")


def value_at(tree: Any, path: str) -> Any:
    """What stands at a path of keys and list positions. Raises LookupError."""
    for key in path.split("/"):
        tree = tree[int(key)] if isinstance(tree, list) else tree[key]
    return tree


def _of_run(record: Mapping[str, Any], path: str) -> list[Any]:
    """The value of each seed of a recorded run."""
    if path.startswith("params/"):
        return [value_at(record, path)]
    seeds = record["seeds"].values()
    return [value_at({**seed, **seed["metrics"]}, path) for seed in seeds]


def _of_study(record: Mapping[str, Any], path: str) -> list[Any]:
    """The value of each seed of a study's setting, or what the study says about its data."""
    if path.startswith("data/"):
        return [value_at(record, path)]
    setting, _, name = path.rpartition("/")
    return [run[name] for run in record["settings"][setting]["runs"].values()]


def rounded(value: Any) -> Any:
    """A number to DIGITS significant digits; anything else as it is."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def recorded(name: str, path: str) -> Any:
    """The number at a place of a record such as runs/word-50k. Raises InputError or LookupError."""
    record = _record(name)
    values = _of_run(record, path) if name.startswith("runs/") else _of_study(record, path)
    return values[0] if len(values) == 1 else statistics.fmean(values)


def wrong_numbers(entry: Mapping[str, Any]) -> Iterator[str]:
    """A line for each number of an entry that does not stand where the entry says."""
    places = {("published", path): number for path, number in entry.get("quotes", {}).items()}
    for name, numbers in entry.get("numbers", {}).items():
        places |= {(name, path): number for path, number in numbers.items()}
    for (name, path), number in places.items():
        try:
            value = value_at(published(), path) if name == "published" else recorded(name, path)
        except LookupError:
            value = "nothing"
        if rounded(value) != number:
            yield f"{name}, {path}: the record has {rounded(value)}, the text {number}"
