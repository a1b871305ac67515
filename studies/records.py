"""Published and recorded numbers, and the check that a number in a text is in the record that it names.

- published.yaml: the numbers of the published systems, as they print them;
- runs/NAME.csv: a recorded run, a line for each number and a column for each seed (`python -m studies.record`);
- results/NAME.csv: a study's result, a line for each setting and seed (`python -m studies.study`).

An entry of ledger.yaml and a row of comparison.yaml name their numbers by place: `quotes` in published.yaml, `numbers`
in a record. A place is a path of keys, such as `train/held_out_perplexity` in a run and `SETTING/held_out_loss` in a
study. Recorded numbers are means over seeds.
"""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from tinylm.base.config import read_yaml

FOLDER = Path(__file__).parent
PUBLISHED = "published"
RUNS = "studies/runs"
RESULTS = "studies/results"
SYSTEMS = ("assignment", "word-50k", "word-10k", "gpt2-bpe", "shakespeare-bpe")
DIGITS = 6  # to which a number in a text is written

Record = dict[str, Any]  # the content of a YAML file


@functools.cache
def read(name: str) -> Record:
    """The content of a YAML file of this folder. Raises InputError."""
    return read_yaml(FOLDER / name)


def published() -> Record:
    """The numbers of the published systems by name."""
    return read("published.yaml")


def entries() -> list[Record]:
    """All entries that name numbers: the claims, and the rows of all comparisons."""
    rows = list(read("ledger.yaml").values())
    for tables in read("comparison.yaml").values():
        for table in tables:
            rows += table["rows"]
    return rows


@functools.cache
def read_run(path: Path) -> pd.DataFrame:
    """A recorded run: numbers and texts by place, with a column for each seed."""
    return pd.read_csv(path, index_col="number", dtype=str, keep_default_na=False)


def settings_of(run: pd.DataFrame) -> Record:
    """The parameters of a recorded run, as its file has them: {"section.key": text}."""
    params = run[run.index.str.startswith("params/")].iloc[:, 0]
    return {str(place).partition("/")[2].replace("/", "."): text for place, text in params.items()}


@functools.cache
def read_result(path: Path) -> pd.DataFrame:
    """A study's result: setting, seed and metrics; a run that diverged has no loss."""
    return pd.read_csv(path, dtype={"setting": str})


def value_at(tree: Any, path: str) -> Any:
    """The value at a path of keys and list positions. Raises LookupError."""
    for key in path.split("/"):
        tree = tree[int(key) if isinstance(tree, list) else key]
    return tree


def recorded(name: str, place: str) -> Any:
    """The number at a place of published.yaml, or of a record such as runs/word-50k. Raises LookupError."""
    if name == PUBLISHED:
        return value_at(published(), place)
    path = FOLDER / f"{name}.csv"
    if name.startswith("runs/"):
        return read_run(path).loc[place].astype(float).mean()
    setting, _, metric = place.rpartition("/")
    return read_result(path).groupby("setting")[metric].mean()[setting]


def rounded(value: Any) -> Any:
    """A number to DIGITS significant digits; a whole number, or anything else, as it is."""
    if isinstance(value, float) and not value.is_integer():
        return float(f"{value:.{DIGITS}g}")
    return value


def wrong_numbers(entry: Record) -> Iterator[str]:
    """A line for each number of an entry that differs from the one at the place that the entry names."""
    for name, numbers in {PUBLISHED: entry.get("quotes", {}), **entry.get("numbers", {})}.items():
        for place, number in numbers.items():
            try:
                value = rounded(recorded(name, place))
            except LookupError:
                value = "nothing"
            if value != number:
                yield f"{name}: {place}: expected {number}, as in the text, got {value}"
