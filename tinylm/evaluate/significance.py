"""Whether two settings differ significantly: p values and Holm's correction.

Needs only numpy, so runs can be compared without loading torch.
"""

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from tinylm.evaluate.intervals import LEVEL, Statistic, bootstrap_interval
from tinylm.run.interval import MIN_TEXTS, Z95, student_critical_value, student_p_value

Tables = Mapping[int, np.ndarray]  # seed -> (S, K), a row for each text

ALPHA = 1 - LEVEL  # family-wise error rate: the chance that a page claims anything false
RESAMPLES = 4000  # bootstrap resamples of the texts, for a difference between settings
SMALLEST_P = 1e-12


# ---------------------------------------------------------------- what may be claimed


def holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Correct p values for multiple comparisons (Holm 1979); returns them in the same order.

    The k-th smallest of n, counted from 0, is multiplied by n - k and capped at 1; corrected values
    never decrease with p. nan, of an effect that cannot be tested, stays nan and is not counted.
    """
    p = np.asarray(p_values, dtype=float)
    corrected = np.full(p.shape, np.nan)
    remaining = np.count_nonzero(~np.isnan(p))
    largest = 0.0
    for index in np.argsort(p)[:remaining]:  # nan is sorted last
        largest = max(largest, min(remaining * p[index], 1.0))
        corrected[index] = largest
        remaining -= 1
    return corrected


def claims(p_values: Sequence[float] | np.ndarray, level: float = ALPHA) -> np.ndarray:
    """Which effects of one page may be claimed, given the p values of all that it compares.

    The chance that the page claims anything false is at most `level`. p = nan is never claimed.
    """
    return holm(p_values) <= level


# ---------------------------------------------------------------- a metric of two settings
#
# Texts and seeds are two crossed sources of variance (Bouthillier et al. 2021,
# arXiv:2103.03098), each with a standard error of its own. Their interaction is counted in both,
# which is conservative (Cameron, Gelbach and Miller 2011).


@dataclasses.dataclass(frozen=True)
class Error:
    """A standard error and its degrees of freedom. paired: of differences seed by seed."""

    size: float
    df: int
    paired: bool = False


def df_of_texts(texts: float) -> int:
    """Degrees of freedom of a standard error over texts: at most 100, since more hardly matter."""
    return int(min(max(texts - 1, 1), 100))


def error_over_texts(half: float, texts: float) -> Error:
    """The standard error behind a bootstrap interval of this half width.

    A bootstrap's variance divides by the number of texts n, an unbiased one by n - 1.
    """
    small_sample = math.sqrt(texts / max(texts - 1, 1))
    return Error(half / Z95 * small_sample, df_of_texts(texts))


def critical_value(level: float, errors: Sequence[Error]) -> float:
    """The size that a difference with these errors must exceed at this level.

    sqrt((t_1 * error_1)^2 + (t_2 * error_2)^2), each t with the error's own degrees of freedom,
    keeps the level for any two variances (Banerjee 1960). A single t with Welch and Satterthwaite's
    degrees of freedom makes several times too many claims with three seeds and many comparisons.
    """
    return math.hypot(*(student_critical_value(level, one.df) * one.size for one in errors))


def p_value(value: float, errors: Sequence[Error]) -> float:
    """The lowest level at which the value exceeds its `critical_value`; at least SMALLEST_P."""
    if value == 0:
        return 1.0
    if len(errors) == 1 and errors[0].size:
        return max(student_p_value(value / errors[0].size, errors[0].df), SMALLEST_P)
    return _level_just_exceeded(abs(value), errors)


def _level_just_exceeded(size: float, errors: Sequence[Error]) -> float:
    """The level whose `critical_value` is `size`, by bisection of its logarithm."""
    low = math.log(SMALLEST_P)
    high = 0.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        if size >= critical_value(math.exp(middle), errors):
            high = middle
        else:
            low = middle
    return math.exp(high)


def p_over_texts(value: float, errors: Sequence[Error], texts: float) -> float:
    """`p_value` of an effect over texts; nan with fewer than `MIN_TEXTS`.

    At least 2^(1 - texts), the chance that all texts differ in one direction: otherwise a few
    equal differences would look certain.
    """
    return max(p_value(value, errors), 2.0 ** (1 - texts)) if texts >= MIN_TEXTS else math.nan


def p_of_interval(value: float, low: float, high: float, texts: float) -> float:
    """Two-sided p value of "there is no effect" from a bootstrap interval over that many texts.

    nan with fewer than `MIN_TEXTS` texts, or for a value that is not finite.
    """
    if not np.isfinite([value, low, high]).all():
        return math.nan
    half = value - low if value > 0 else high - value  # towards zero
    return p_over_texts(value, [error_over_texts(half, texts)], texts)


def shared_seeds(first: Mapping[int, object], second: Mapping[int, object]) -> list[int]:
    """The seeds that both sides share, if at least two and all the seeds of one side; else none."""
    shared = sorted(first.keys() & second.keys())
    fewest = min(len(first), len(second))
    return shared if len(shared) >= max(fewest, 2) else []


def seed_error(first: Mapping[int, float], second: Mapping[int, float]) -> Error | None:
    """Standard error of mean(second) - mean(first), metrics by seed; None if it is unknown.

    With `shared_seeds`, it is the error of the paired differences. Otherwise the variances of both
    sides add up (Welch 1947), with the smaller side's degrees of freedom. One run has no variance.
    """
    fewest = min(len(first), len(second))
    if fewest < 2 or not np.isfinite([*first.values(), *second.values()]).all():
        return None
    if shared := shared_seeds(first, second):
        deviation = statistics.stdev(second[seed] - first[seed] for seed in shared)
        return Error(deviation / math.sqrt(len(shared)), len(shared) - 1, paired=True)
    variances = [statistics.variance(side.values()) / len(side) for side in (first, second)]
    return Error(math.sqrt(sum(variances)), fewest - 1)


def difference_over_seeds(
    first: Mapping[int, float], second: Mapping[int, float]
) -> tuple[float, Error | None]:
    """mean(second) - mean(first), metrics by seed, and its `seed_error`: both over `shared_seeds`, if any."""
    if shared := shared_seeds(first, second):
        first = {seed: first[seed] for seed in shared}
        second = {seed: second[seed] for seed in shared}
    difference = statistics.fmean(second.values()) - statistics.fmean(first.values())
    return difference, seed_error(first, second)


@dataclasses.dataclass(frozen=True)
class Difference:
    """A metric of two settings over the same texts; low, high: 95 % interval of second - first.

    The interval covers the texts and, where `seeds` is not None, the seeds. p: nan if nothing can
    be claimed, because a side has one seed, there are too few texts, or a value is not finite.
    """

    first: float
    second: float
    low: float
    high: float
    p: float
    texts: int
    seeds: Error | None

    @property
    def value(self) -> float:
        """second - first"""
        return self.second - self.first


def difference_of(first: Tables, second: Tables, statistic: Statistic) -> Difference:
    """Compare two settings by the tables of their runs. All tables have the same texts as rows.

    A side's metric is computed from the mean of its tables over seeds.
    """
    if shared := shared_seeds(first, second):
        first = {seed: first[seed] for seed in shared}
        second = {seed: second[seed] for seed in shared}
    first_mean = np.mean(list(first.values()), axis=0)
    second_mean = np.mean(list(second.values()), axis=0)
    first_value = _value_of(first_mean, statistic)
    second_value = _value_of(second_mean, statistic)
    texts = len(first_mean)

    low, high = _interval_over_texts(first_mean, second_mean, statistic)
    seeds = seed_error(_value_by_seed(first, statistic), _value_by_seed(second, statistic))
    if seeds is None:
        return Difference(first_value, second_value, low, high, math.nan, texts, None)

    value = second_value - first_value
    errors = [seeds, error_over_texts((high - low) / 2, texts)]
    half = critical_value(ALPHA, errors)
    p = p_over_texts(value, errors, texts)
    return Difference(first_value, second_value, value - half, value + half, p, texts, seeds)


def _value_of(table: np.ndarray, statistic: Statistic) -> float:
    """The metric of a table (texts, K)."""
    return float(statistic(table.mean(axis=0)))


def _value_by_seed(tables: Tables, statistic: Statistic) -> dict[int, float]:
    return {seed: _value_of(table, statistic) for seed, table in tables.items()}


def _interval_over_texts(
    first: np.ndarray, second: np.ndarray, statistic: Statistic
) -> tuple[float, float]:
    """95 % interval of the difference between two tables (texts, K), for the texts alone.

    Every resample draws the same rows from both, so what makes a text hard for both cancels out
    (Koehn 2004).
    """
    width = first.shape[1]

    def gain(means: np.ndarray) -> np.ndarray:
        return statistic(means[:, width:]) - statistic(means[:, :width])

    return bootstrap_interval(np.hstack([first, second]), gain, RESAMPLES, seed=1)
