"""Compare revisions with the first: what differs, by how much, and whether that is significant.

Runs that differ only in train.seed are one setting; settings are compared, not runs. The metric is
perplexity if both sides scored the same tokens, otherwise bits per byte of the same text. If a run
diverged, nats per token take the place of its perplexity, which is too large for a number.
`significance.claims` corrects for all comparisons together.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from tinylm.evaluate.intervals import pooled_perplexity, pooled_ratio
from tinylm.evaluate.significance import Difference, claims, difference_of, holm, shared_seeds
from tinylm.experiments.results import (
    TEXT_IDS,
    RevisionResult,
    by_setting,
    plain_value,
    stories_of,
)
from tinylm.params.presets.write import value_as_yaml
from tinylm.run.interval import MIN_TEXTS

PERPLEXITY = "perplexity"
NATS = "nats per token"
BITS = "bits per byte"
MOST_NATS = 100.0  # per token, of a perplexity that is compared
SAME = "the same parameters, code and data"
OTHER_SEEDS = "only the seeds differ"


@dataclasses.dataclass
class Row:
    """A setting, or another run of the first setting, compared with the first.

    perplexity: of its first run. compared_seeds: if a side has further ones, which do not count; else
    empty. metric: what the difference measures. difference: None if the sides have no text in common.
    differs: the parameters, code and data that differ. p: nan if nothing can be claimed;
    `compare_settings` corrects it and sets the verdict. is_same_setting: only the seed may differ.
    """

    name: str
    seeds: list[int]
    compared_seeds: list[int]
    perplexity: float | None
    metric: str
    difference: Difference | None
    differs: list[str]
    p: float
    is_same_setting: bool
    verdict: str = ""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What the terminal and the page show.

    first_seeds: of the first run. settings: how many were compared with the first.
    """

    results: list[RevisionResult]
    first_seeds: list[int]
    rows: list[Row]
    settings: int

    @property
    def has_other_tokens(self) -> bool:
        """Whether a row has a perplexity of other tokens than the first run's."""
        return any(
            row.perplexity is not None
            and (row.metric == BITS or any(line.startswith("vocab.") for line in row.differs))
            for row in self.rows
        )


def compare_settings(results: Sequence[RevisionResult]) -> Comparison:
    """Compare each setting with that of the first run."""
    reference, *settings = by_setting(results)
    rows = [_row([results[0]], [run]) for run in reference[1:]]
    rows += [_row(reference, setting) for setting in settings]
    names = [result.name for result in results]
    rows.sort(key=lambda row: names.index(row.name))
    p_values = [row.p for row in rows]
    for row, p, is_claimed in zip(rows, holm(p_values), claims(p_values)):
        row.p = float(p)
        row.verdict = _verdict(row, bool(is_claimed))
    first_seeds = sorted(stories_of(results[:1]))
    for row in rows:
        if row.verdict == SAME and row.seeds != first_seeds:
            row.verdict = OTHER_SEEDS
    return Comparison(list(results), first_seeds, rows, len(settings))


def _row(first: Sequence[RevisionResult], second: Sequence[RevisionResult]) -> Row:
    """Compare two settings; p is not corrected for multiple comparisons.

    Two runs of one setting are compared by the seeds that both have, if there are any; two settings, by
    `shared_seeds`.
    """
    run = second[0]
    differs = what_differs(first[0], run)
    is_same_setting = run.setting == first[0].setting
    one, other = stories_of(first), stories_of(second)
    shared = sorted(one.keys() & other.keys()) if is_same_setting else shared_seeds(one, other)
    compared_seeds = []
    if shared:
        if len(shared) < len(one.keys() | other.keys()):
            compared_seeds = shared
        one = {seed: one[seed] for seed in shared}
        other = {seed: other[seed] for seed in shared}
    metric, difference = _difference(one, other)
    p = difference.p if difference and not is_same_setting else math.nan
    return Row(
        name=run.name,
        seeds=sorted(stories_of(second)),
        compared_seeds=compared_seeds,
        perplexity=run.perplexity,
        metric=metric,
        difference=difference,
        differs=differs,
        p=p,
        is_same_setting=is_same_setting,
    )


def what_differs(first: RevisionResult, second: RevisionResult) -> list[str]:
    """Each parameter that differs, with both values; then each differing file of code or data."""
    lines = []
    for key in first.params | second.params:
        one = value_as_yaml(first.params, key)
        other = value_as_yaml(second.params, key)
        is_set = key in first.params and key in second.params
        if is_set and plain_value(first.params[key]) == plain_value(second.params[key]):
            continue
        if one != other:
            lines.append(f"{key} {one} → {other}")
    for path in sorted(first.inputs.keys() | second.inputs.keys()):
        if first.inputs.get(path) != second.inputs.get(path):
            lines.append(path)
    return lines


def _difference(
    first: dict[int, pd.DataFrame], second: dict[int, pd.DataFrame]
) -> tuple[str, Difference | None]:
    """The metric to compare two settings on, and their difference; None if they share no metric.

    first, second: the stories of each by seed.
    """
    sides = (first, second)
    tables = [table for side in sides for table in side.values()]
    diverged = any(table["nats"].sum() > MOST_NATS * table["tokens"].sum() for table in tables)
    by_tokens = (NATS, pooled_ratio) if diverged else (PERPLEXITY, pooled_perplexity)
    choices = (
        (by_tokens[0], [*TEXT_IDS, "tokens"], ["nats", "tokens"], by_tokens[1]),
        (BITS, ["text_id", "raw_bytes"], ["raw_bits", "raw_bytes"], pooled_ratio),
    )
    for metric, same, columns, statistic in choices:
        if all(sides) and all(_comparable(table, tables[0], same, columns) for table in tables):
            values, others = (_values(side, columns) for side in sides)
            return metric, difference_of(values, others, statistic)
    return "", None


def _values(side: dict[int, pd.DataFrame], columns: list[str]) -> dict[int, np.ndarray]:
    """The columns of each seed's table as an array, (texts, columns)."""
    return {seed: table[columns].to_numpy() for seed, table in side.items()}


def _comparable(
    table: pd.DataFrame, other: pd.DataFrame, same: list[str], columns: list[str]
) -> bool:
    """Whether the tables have equal values in the columns `same` and no missing numbers."""
    return table[same].equals(other[same]) and bool(table[columns].notna().all(axis=None))


def _verdict(row: Row, is_claimed: bool) -> str:
    """What may be said of a setting compared with the first."""
    if not row.differs:
        return SAME
    difference = row.difference
    if difference is None:
        return "not compared: no losses of the same texts in the same form"
    if row.is_same_setting:
        return OTHER_SEEDS
    if is_claimed:
        return f"{'worse' if difference.value > 0 else 'better'}; p = {row.p:.2g}"
    if not math.isnan(row.p):
        return f"no difference claimed; p = {row.p:.2g}"
    if difference.texts < MIN_TEXTS:
        return f"no difference claimed: fewer than {MIN_TEXTS} texts"
    return "no claim: a setting has one seed"
