"""Published and recorded results, and the check that a number in a text is in the record that it names.

- published.yaml: the numbers of the published systems, as they print them;
- runs/NAME.json: a recorded run of a preset, its seeds side by side (`python -m studies.record`);
- results/NAME.json: a study's result (`python -m studies.study`).

An entry of ledger.yaml and a row of comparison.yaml names its numbers by their place: `quotes` in published.yaml,
`numbers` in a record. A place is a path of keys, such as `train/held_out_perplexity`. In a record the number is the
mean over seeds.
"""

import functools
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tinylm.base.config import load_params
from tinylm.base.files import read_json

FOLDER = Path(__file__).parent
PUBLISHED = "published"
RUNS = "studies/runs"
RESULTS = "studies/results"
SYSTEMS = ("assignment", "A", "B", "D", "E")
DIGITS = 6  # to which a number in a text is written

Record = dict[str, Any]  # the content of a JSON or YAML file


@functools.cache
def read(name: str) -> Record:
    """The content of a YAML file of this folder. Raises InputError."""
    return load_params(FOLDER / name)


def published() -> Record:
    """The numbers of the published systems by name."""
    return read("published.yaml")


@functools.cache
def _record(name: str) -> Record:
    return read_json(FOLDER / f"{name}.json")


def value_at(tree: Any, path: str) -> Any:
    """The value at a path of keys and list positions. Raises LookupError."""
    for key in path.split("/"):
        if isinstance(tree, list):
            tree = tree[int(key)]
        else:
            tree = tree[key]
    return tree


def _of_run(record: Record, path: str) -> list[Any]:
    """The value of each seed of a recorded run."""
    if path.startswith("params/"):
        return [value_at(record, path)]
    seeds = record["seeds"].values()
    return [value_at({**seed, **seed["metrics"]}, path) for seed in seeds]


def _of_study(record: Record, path: str) -> list[Any]:
    """The value of each seed of a study's setting, or what the study says about its data."""
    if path.startswith("data/"):
        return [value_at(record, path)]
    setting, _, name = path.rpartition("/")
    runs = record["settings"][setting]["runs"]
    return [run[name] for run in runs.values()]


def rounded(value: Any) -> Any:
    """A number to DIGITS significant digits; anything else as it is."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def recorded(name: str, path: str) -> Any:
    """The number at a place of published.yaml, or of a record such as runs/word-50k. Raises InputError or LookupError."""
    if name == PUBLISHED:
        return value_at(published(), path)
    record = _record(name)
    read_values = _of_run if name.startswith("runs/") else _of_study
    values = read_values(record, path)
    return values[0] if len(values) == 1 else statistics.fmean(values)


def _difference(name: str, path: str, number: Any) -> Iterator[str]:
    try:
        value = rounded(recorded(name, path))
    except LookupError:
        value = "nothing"
    if value != number:
        yield f"{name}, {path}: the record has {value}, the text {number}"


def wrong_numbers(entry: Record) -> Iterator[str]:
    """A line for each number of an entry that differs from the one at the place that the entry names."""
    for path, number in entry.get("quotes", {}).items():
        yield from _difference(PUBLISHED, path, number)
    for name, numbers in entry.get("numbers", {}).items():
        for path, number in numbers.items():
            yield from _difference(name, path, number)
