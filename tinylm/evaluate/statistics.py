"""Intervals and tests: bootstrap, Wilson, Student's t, Holm, differences, and what may be claimed.

This is the project's only statistics module. It needs only numpy, so reports start without torch.
"""

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np

Statistic = Callable[[np.ndarray], np.ndarray]  # column means (..., K) -> (...)
Tables = Mapping[int, np.ndarray]  # seed -> (S, K), a row for each text

Z95 = 1.96  # half-width of a 95 % normal interval, in standard deviations
LEVEL = 0.95  # confidence level of all intervals
ALPHA = 1 - LEVEL  # family-wise error rate: the chance that a page claims anything false
MIN_TEXTS = 5  # with fewer texts an interval is too narrow, so nothing is claimed
RESAMPLES = 4000  # bootstrap resamples of the texts, for a difference between settings
SMALLEST_P = 1e-12
_DRAWS_AT_ONCE = 1_000_000  # keeps a block of resamples to some tens of MiB


def mean(means: np.ndarray) -> np.ndarray:
    """The mean of one value per sample.  (..., K) -> (...)"""
    return means[..., 0]


def pooled_ratio(means: np.ndarray) -> np.ndarray:
    """The sum of column 0 / the sum of column 1.  (..., 2) -> (...)"""
    return means[..., 0] / means[..., 1]


def ratios_to_last(means: np.ndarray) -> np.ndarray:
    """The sum of each column / the sum of the last; 0 if that is 0.  (R, M + 1) -> (R, M)"""
    return means[:, :-1] / np.maximum(means[:, -1:], 1e-12)


def pooled_perplexity(means: np.ndarray) -> np.ndarray:
    """exp(all nats / all tokens) of samples given as (nats, tokens).  (..., 2) -> (...)"""
    return np.exp(pooled_ratio(means))


def bootstrap_interval(
    values: np.ndarray, statistic: Statistic, resamples: int, seed: int
) -> tuple[float, float]:
    """The interval of one statistic: see `bootstrap_intervals`.

    Rounded to ten digits, since later ones depend on the order in which a CPU adds.
    """
    low, high = bootstrap_intervals(values, statistic, resamples, seed)
    return float(f"{low:.10g}"), float(f"{high:.10g}")


def bootstrap_intervals(
    values: np.ndarray, statistic: Statistic, resamples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """95 % percentile intervals over samples drawn with replacement (Efron 1979): lows and highs.

    values (samples,) or (samples, K): rows are drawn whole, so each must be independent of the
    others. statistic maps the means of resamples (R, K) to (R, M), or to (R,) for one: `mean`,
    `pooled_perplexity`, or any function of column means. All M statistics share the resamples.
    The intervals have shape (M,), or (). Raises ValueError without a sample or a resample.
    """
    table = np.asarray(values, dtype=np.float64)
    samples = len(table)
    if samples == 0 or resamples < 1:
        raise ValueError(
            f"a bootstrap needs at least one sample and one resample, got {samples} and {resamples}"
        )
    table = table.reshape(samples, -1)
    equal_chances = np.full(samples, 1 / samples)
    rng = np.random.default_rng(seed)
    block = max(_DRAWS_AT_ONCE // samples, 1)
    resampled = []
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        counts = rng.multinomial(samples, equal_chances, size=size)
        means = counts @ table / samples  # (block, samples) @ (samples, K)
        resampled.append(statistic(means))
    tail = (1 - LEVEL) / 2
    values_of_resamples = np.concatenate(resampled)
    low, high = np.quantile(values_of_resamples, [tail, 1 - tail], axis=0)
    return low, high


def merge_repeats(values: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Sum the rows (S, K) of identical texts: (distinct texts, K), in order of first occurrence.

    names: one for each row, equal for identical texts. A bootstrap draws these sums, since copies
    of a text are not independent.
    """
    _, first, text = np.unique(names, return_index=True, return_inverse=True)
    sums = np.zeros((len(first), values.shape[1]))
    np.add.at(sums, text, values)
    return sums[np.argsort(first)]


def wilson(count: float, of: int) -> dict[str, float] | None:
    """The share count / of with its 95 % score interval (Wilson 1927); None if `of` is 0.

    Unlike the normal interval, it is also valid for shares of 0 and 1.
    """
    if not of:
        return None
    share = count / of
    square = Z95**2 / of
    centre = (share + square / 2) / (1 + square)
    variance = share * (1 - share) / of + square / (4 * of)
    half = Z95 * float(np.sqrt(variance)) / (1 + square)
    low = max(centre - half, 0.0)
    high = min(centre + half, 1.0)
    return {"value": share, "low": low, "high": high}


def student_p_value(t: float, df: int) -> float:
    """Probability that Student's t with `df` degrees of freedom is at least |t| away from 0.

    Two-sided. The finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4, exact to about 1e-15.
    """
    angle = math.atan(abs(t) / math.sqrt(df))
    odd = df % 2
    square = math.cos(angle) ** 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for k in range(2 + odd, df + 1, 2):
        total += term
        term *= square * (k - 1) / k
    inside = math.sin(angle) * total
    if odd:
        inside = 2 / math.pi * (angle + inside)
    return max(1 - inside, 0.0)


def student_critical_value(level: float, df: int) -> float:
    """The t > 0 whose `student_p_value` is `level`, by bisection; 12.706 for level 0.05, df 1."""
    low = 0.0
    high = 1.0
    while student_p_value(high, df) > level:
        low = high
        high *= 2
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        if student_p_value(middle, df) > level:
            low = middle
        else:
            high = middle
    return high


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
    low = math.log(SMALLEST_P)
    high = 0.0
    while high - low > 1e-4:  # bisection of the logarithm
        middle = (low + high) / 2
        if abs(value) >= critical_value(math.exp(middle), errors):
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
    """Compare two settings by the tables of their runs, whose rows are the same texts in all runs.

    Every resample draws the same rows from both, so what makes a text hard for both cancels out
    (Koehn 2004). A side's metric is computed from the mean of its tables over seeds.
    """
    if shared := shared_seeds(first, second):
        first = {seed: first[seed] for seed in shared}
        second = {seed: second[seed] for seed in shared}
    one = np.mean(list(first.values()), axis=0)
    other = np.mean(list(second.values()), axis=0)
    texts, width = one.shape

    def gain(means: np.ndarray) -> np.ndarray:
        return statistic(means[:, width:]) - statistic(means[:, :width])

    low, high = bootstrap_interval(np.hstack([one, other]), gain, RESAMPLES, seed=1)
    first_value = float(statistic(one.mean(axis=0)))
    second_value = float(statistic(other.mean(axis=0)))
    value = second_value - first_value
    by_seed = []
    for tables in (first, second):
        by_seed.append(
            {seed: float(statistic(table.mean(axis=0))) for seed, table in tables.items()}
        )
    seeds = seed_error(*by_seed)
    p = math.nan
    if seeds is not None:
        errors = [seeds, error_over_texts((high - low) / 2, texts)]
        half = critical_value(ALPHA, errors)
        low = value - half
        high = value + half
        p = p_over_texts(value, errors, texts)
    return Difference(first_value, second_value, low, high, p, texts, seeds)
