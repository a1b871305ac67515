"""How sure a difference between two runs is: a bootstrap over what both were measured on, and the spread over seeds."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinylm.bench.seeds import FIGURES, merge
from tinylm.compare.runs import Run
from tinylm.reporting.sources import as_number
from tinylm.scoring.diversity import bootstrap_intervals

RESAMPLES, SEED, LEVEL = 4000, 1, 0.95
Statistic = Callable[[np.ndarray], np.ndarray]  # means (..., K) -> (...)


@dataclasses.dataclass(frozen=True)
class Difference:
    """A figure of two runs, first and second, over the same things; low and high: 95 % interval of second - first."""

    first: float
    second: float
    low: float
    high: float
    count: int  # stories or prompts that both were measured on
    paired: bool = True

    @property
    def value(self) -> float:
        """second - first"""
        return self.second - self.first

    @property
    def holds_zero(self) -> bool:
        """Whether the interval leaves open which of the two is larger."""
        return self.low <= 0 <= self.high


def paired_difference(first: np.ndarray, second: np.ndarray, statistic: Statistic) -> Difference:
    """Percentile interval of statistic(second) - statistic(first) over resamples that draw the same rows from both.

    first, second (S, K): row i of both is for the same story; statistic maps means over rows (..., K) to (...). What
    makes a story hard for both runs cancels in the difference (Koehn 2004). Raises ValueError if there is no row.
    """
    width = first.shape[1]

    def difference(means: np.ndarray) -> np.ndarray:
        return statistic(means[:, width:]) - statistic(means[:, :width])

    both = np.concatenate([first, second], axis=1)
    low, high = bootstrap_intervals(both, difference, RESAMPLES, SEED, LEVEL)
    one, other = (float(statistic(table.mean(axis=0))) for table in (first, second))
    return Difference(one, other, float(low), float(high), len(both))


def unpaired_difference(first: np.ndarray, second: np.ndarray, statistic: Statistic) -> Difference:
    """The same for runs that were measured on different stories: (S, K) and (Z, K).

    From the interval of each alone (Zou and Donner 2008): low = d - sqrt((f_high - f)^2 + (s - s_low)^2), and similarly
    for high. The count is that of the smaller table.
    """
    (f, f_low, f_high), (s, s_low, s_high) = (_alone(table, statistic) for table in (first, second))
    low = s - f - math.hypot(f_high - f, s - s_low)
    high = s - f + math.hypot(f - f_low, s_high - s)
    return Difference(f, s, low, high, min(len(first), len(second)), paired=False)


def _alone(table: np.ndarray, statistic: Statistic) -> tuple[float, float, float]:
    low, high = bootstrap_intervals(table, statistic, RESAMPLES, SEED, LEVEL)
    return float(statistic(table.mean(axis=0))), float(low), float(high)


def pooled_ratio(means: np.ndarray) -> np.ndarray:
    """Statistic: all of column 0 / all of column 1."""
    return means[..., 0] / means[..., 1]


SEED_KEY = "train.seed"


@dataclass(frozen=True)
class Spread:
    """95 % bound on the difference between two runs that differ only in seed, estimated from `seeds` runs."""

    difference: float
    seeds: int


class Noise:
    """The spread over seeds for each run of a comparison: from its metrics/seeds.json, else from a compared run with
    the same settings, else from such runs themselves if their seeds differ."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._groups: dict[str, list[Run]] = {}
        for run in runs:
            self._groups.setdefault(_settings(run), []).append(run)

    def of(self, run: Run, metric: str) -> Spread | None:
        """For two runs like this one that differ only in seed; None if not known."""
        merged = [other.metrics.get("seeds", {}) for other in (run, *self._groups[_settings(run)])]
        for summary in (*merged, self._summary(run)):
            found = summary.get(metric)
            reach = as_number(found.get("difference")) if isinstance(found, dict) else None
            seeds = as_number(summary.get("n"))
            if reach is not None and seeds is not None:
                return Spread(reach, int(seeds))
        return None

    def _summary(self, run: Run) -> dict[str, Any]:
        """Summary of one group's runs as in metrics/seeds.json, each seed once."""
        group = {
            seed: other
            for other in self._groups[_settings(run)]
            if "evaluate" in other.metrics and isinstance(seed := other.params.get(SEED_KEY), int)
        }
        return merge(
            {
                seed: {name: as_number(other.value("evaluate", name)) for name in FIGURES}
                for seed, other in group.items()
            }
        )


def _settings(run: Run) -> str:
    """Equal for runs that differ in train.seed, and in nothing else that decides a figure."""
    values = {key: value for key, value in run.deciding.items() if key != SEED_KEY}
    return repr((sorted(values.items()), sorted(run.inputs.items())))


def either(first: Spread | None, second: Spread | None) -> Spread | None:
    """For one run like the first and one like the second: their variances add up; if one is not known, it is taken to
    equal the other's."""
    known = [spread for spread in (first, second) if spread is not None]
    if not known:
        return None
    squares = [spread.difference**2 for spread in known]
    return Spread(math.sqrt(sum(squares) / len(squares)), min(spread.seeds for spread in known))
