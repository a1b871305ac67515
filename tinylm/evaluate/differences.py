"""A metric of two settings over the same texts, with its interval over texts and seeds.

Texts and seeds are two crossed sources of chance (Bouthillier et al. 2021, arXiv:2103.03098; Owen 2007). Each has an
error of its own. That of the texts comes from a bootstrap that draws whole stories (or prompts, or pairs) from the
means over seeds. That of the seeds comes from the spread of the runs' metrics, seed by seed where both settings have
the same seeds. A difference counts at a level if it is larger than

    sqrt((t_seeds * error_seeds)^2 + (t_texts * error_texts)^2)

with a critical value of Student's t for each error, which keeps the level for any two variances (Banerjee
1960). A single t with Welch and Satterthwaite's degrees of freedom makes several times too many claims
with three seeds and many comparisons. The interaction of seed and story is in both errors,
which is conservative (Cameron, Gelbach and Miller 2011 subtract it).
"""

import dataclasses
import functools
import math
import statistics
from collections.abc import Mapping

import numpy as np

from tinylm.evaluate.statistics import (
    ALPHA,
    MIN_TEXTS,
    ONE_SEED,
    Z95,
    Statistic,
    bootstrap_intervals,
    df_of_texts,
    least_p,
    student_critical_value,
    student_p_value,
)

Tables = Mapping[int, np.ndarray]  # seed -> (S, K), a row for each text
RESAMPLES = 4000  # of texts
SMALLEST_P = 1e-12
_RESAMPLING_SEED = 1


@dataclasses.dataclass(frozen=True)
class SeedError:
    """Standard error of a difference that comes from seeds, and its degrees of freedom."""

    error: float
    df: int
    paired: bool  # seed by seed

    @property
    def bound(self) -> float:
        """How far apart two such means are by their seeds alone, in 95 of 100 cases."""
        return student_critical_value(ALPHA, self.df) * self.error

    def p(self, value: float) -> float:
        """Probability of a difference at least as large as `value` by seeds alone."""
        if not value:
            return 1.0
        if not self.error:
            return 0.0
        return student_p_value(value / self.error, self.df)


@dataclasses.dataclass(frozen=True)
class Difference:
    """A metric of two settings over the same texts; low, high: 95 % interval of second - first.

    The interval covers the texts and, where `seeds` is not None, the seeds.
    """

    first: float
    second: float
    low: float
    high: float
    count: int  # texts that both were measured on; 0 if only seeds are a source of chance
    error: float  # standard error over the texts
    seeds: SeedError | None = None

    @property
    def value(self) -> float:
        """second - first"""
        return self.second - self.first

    @property
    def obstacle(self) -> str:
        """Why nothing can be claimed; "" if something can."""
        if not math.isfinite(self.value):
            return "a value is not finite"
        if 0 < self.count < MIN_TEXTS:
            return f"an interval needs {MIN_TEXTS} texts or more"
        return "" if self.seeds else ONE_SEED

    @functools.cached_property
    def p(self) -> float:
        """The lowest level at which the difference counts. Needs the seeds' error.

        By bisection of its logarithm, to four digits, and never below SMALLEST_P or `least_p`.
        """
        assert self.seeds is not None
        least = least_p(self.count) if self.count else 0.0
        if not self.error:
            return max(self.seeds.p(self.value), least)
        low = math.log(max(SMALLEST_P, least))
        high = 0.0
        while high - low > 1e-4:
            middle = (low + high) / 2
            critical = critical_value(math.exp(middle), self.seeds, self.error, self.count)
            if abs(self.value) >= critical:
                high = middle
            else:
                low = middle
        return math.exp(high)


def critical_value(level: float, seeds: SeedError, error: float, texts: int) -> float:
    """The size that a difference must exceed at this level. error: over this many texts."""
    by_seeds = student_critical_value(level, seeds.df) * seeds.error
    by_texts = student_critical_value(level, df_of_texts(texts)) * error
    return math.hypot(by_seeds, by_texts)


def shared_seeds(first: Mapping[int, object], second: Mapping[int, object]) -> list[int]:
    """The smaller side's seeds, if they are two or more and the other has them all; else none."""
    shared = sorted(first.keys() & second.keys())
    smaller_side = min(len(first), len(second))
    if len(shared) < max(smaller_side, 2):
        return []
    return shared


def seed_error(first: Mapping[int, float], second: Mapping[int, float]) -> SeedError | None:
    """Standard error of mean(second) - mean(first), metrics by seed; None if it is unknown.

    With `shared_seeds`, that of their differences. Otherwise the variances of both sides add up
    (Welch 1947), with the smaller side's degrees of freedom. A side with one run has no variance.
    """
    values = [*first.values(), *second.values()]
    fewest = min(len(first), len(second))
    if fewest < 2 or not np.isfinite(values).all():
        return None
    if shared := shared_seeds(first, second):
        deviation = statistics.stdev(second[seed] - first[seed] for seed in shared)
        error = deviation / math.sqrt(len(shared))
        return SeedError(error, len(shared) - 1, paired=True)
    variances = [statistics.variance(side.values()) / len(side) for side in (first, second)]
    return SeedError(math.sqrt(sum(variances)), fewest - 1, paired=False)


def difference_of(first: Tables, second: Tables, statistic: Statistic) -> Difference:
    """Two settings by the tables of their runs, whose rows are the same texts for all runs.

    Every resample draws the same rows from both. A side's metric is that of its mean over seeds:
    for perplexity, exp of the mean loss.
    """
    if shared := shared_seeds(first, second):
        first = {seed: first[seed] for seed in shared}
        second = {seed: second[seed] for seed in shared}
    one = np.mean(list(first.values()), axis=0)
    other = np.mean(list(second.values()), axis=0)
    low, high = paired_interval(one, other, statistic, RESAMPLES, _RESAMPLING_SEED)
    error = (high - low) / (2 * Z95)
    count = len(one)
    error *= math.sqrt(count / max(count - 1, 1))  # a bootstrap's variance lacks this factor
    first_value = float(statistic(one.mean(axis=0)))
    second_value = float(statistic(other.mean(axis=0)))
    seeds = seed_error(_by_seed(first, statistic), _by_seed(second, statistic))
    if seeds is not None:
        value = second_value - first_value
        half = critical_value(ALPHA, seeds, error, count)
        low = value - half
        high = value + half
    return Difference(first_value, second_value, low, high, count, error, seeds)


def _by_seed(tables: Tables, statistic: Statistic) -> dict[int, float]:
    return {seed: float(statistic(rows.mean(axis=0))) for seed, rows in tables.items()}


def paired_interval(
    first: np.ndarray, second: np.ndarray, statistic: Statistic, resamples: int, seed: int
) -> tuple[float, float]:
    """Interval of statistic(second) - statistic(first), measured on the same samples.

    first, second (S, K): row i of both belongs to the same sample, and every resample draws the
    same rows from both. What makes a sample hard for both cancels out (Koehn 2004).
    """
    width = first.shape[1]

    def difference(means: np.ndarray) -> np.ndarray:
        return statistic(means[:, width:]) - statistic(means[:, :width])

    both = np.concatenate([first, second], axis=1)
    low, high = bootstrap_intervals(both, difference, resamples, seed)
    return float(low), float(high)
