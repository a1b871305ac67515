"""Intervals and tests: bootstrap, Wilson, Student's t, Holm. The project's one statistics module.

It needs numpy only, so that reports and comparisons start without torch.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

Statistic = Callable[[np.ndarray], np.ndarray]  # column means (..., K) -> (...)

Z95 = 1.96  # standard deviations from the centre to either end of a 95 % normal interval
_DRAWS_AT_ONCE = 1_000_000  # a block of resamples then uses some tens of MiB


# Statistics of resampled means


def mean(means: np.ndarray) -> np.ndarray:
    """The mean of one value per sample.  (..., K) -> (...)"""
    return means[..., 0]


def pooled_ratio(means: np.ndarray) -> np.ndarray:
    """All of column 0 / all of column 1.  (..., 2) -> (...)"""
    return means[..., 0] / means[..., 1]


def pooled_perplexity(means: np.ndarray) -> np.ndarray:
    """exp(all nats / all tokens) of samples given as (nats, tokens).  (..., 2) -> (...)"""
    return np.exp(pooled_ratio(means))


# The bootstrap


def bootstrap_interval(
    values: np.ndarray,
    statistic: Statistic,
    resamples: int,
    seed: int,
    level: float = 0.95,
) -> tuple[float, float]:
    """The interval of one statistic: see `bootstrap_intervals`.

    statistic maps the means of resamples (R, K) to (R,): `mean`, `pooled_perplexity`,
    `tinylm.evaluate.bleu.corpus_bleu`, or any function of column means. The ends are rounded to
    ten digits, since the last ones depend on the order in which a CPU adds.
    """
    low, high = bootstrap_intervals(values, statistic, resamples, seed, level)
    return float(f"{low:.10g}"), float(f"{high:.10g}")


def bootstrap_intervals(
    values: np.ndarray,
    statistic: Statistic,
    resamples: int,
    seed: int,
    level: float = 0.95,
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile intervals over samples drawn with replacement (Efron 1979): lows and highs.

    values (samples,) or (samples, K): one row per sample; rows are drawn whole, so each row must
    be independent of the others. statistic maps the means of resamples (R, K) to (R, M), or to
    (R,) for one. All M statistics share the resamples. The intervals have shape (M,), or () for
    one statistic. Equal arguments give equal intervals. Raises ValueError without a sample or
    without a resample.
    """
    table = np.asarray(values, dtype=np.float64)
    samples = len(table)
    if samples == 0 or resamples < 1:
        allowed = "allowed: at least 1 of each"
        raise ValueError(f"bootstrap of {samples} samples, {resamples} resamples; {allowed}")
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
    tail = (1 - level) / 2
    low, high = np.quantile(np.concatenate(resampled), [tail, 1 - tail], axis=0)
    return low, high


def paired_interval(
    first: np.ndarray,
    second: np.ndarray,
    statistic: Statistic,
    resamples: int,
    seed: int,
    level: float = 0.95,
) -> tuple[float, float]:
    """Interval of statistic(second) - statistic(first), measured on the same samples.

    first, second (S, K): row i of both belongs to the same sample, and every resample draws the
    same rows from both. What makes a sample hard for both cancels out (Koehn 2004).
    """
    width = first.shape[1]

    def difference(means: np.ndarray) -> np.ndarray:
        return statistic(means[:, width:]) - statistic(means[:, :width])

    both = np.concatenate([first, second], axis=1)
    low, high = bootstrap_intervals(both, difference, resamples, seed, level)
    return float(low), float(high)


def unpaired_interval(
    first: np.ndarray,
    second: np.ndarray,
    statistic: Statistic,
    resamples: int,
    seed: int,
    level: float = 0.95,
) -> tuple[float, float]:
    """Interval of statistic(second) - statistic(first), measured on different samples.

    first (S, K), second (Z, K). From the interval of each alone (Zou and Donner 2008):
    low = d - sqrt((first_high - first)^2 + (second - second_low)^2), and similarly for high.
    """
    one = float(statistic(first.mean(axis=0)))
    other = float(statistic(second.mean(axis=0)))
    one_low, one_high = bootstrap_intervals(first, statistic, resamples, seed, level)
    other_low, other_high = bootstrap_intervals(second, statistic, resamples, seed, level)
    low = other - one - math.hypot(one_high - one, other - other_low)
    high = other - one + math.hypot(one - one_low, other_high - other)
    return low, high


# Shares


def wilson(count: float, of: int) -> dict[str, float] | None:
    """The share count / of with its 95 % score interval (Wilson 1927); None if `of` is 0.

    Unlike the normal interval it is right for shares of 0 and 1 too.
    """
    if not of:
        return None
    share = count / of
    square = Z95**2 / of
    centre = (share + square / 2) / (1 + square)
    variance = share * (1 - share) / of + square / (4 * of)
    half = Z95 * float(np.sqrt(variance)) / (1 + square)
    return {"value": share, "low": max(centre - half, 0.0), "high": min(centre + half, 1.0)}


# Student's t


def student_tail(t: float, freedom: int) -> float:
    """Probability that Student's t with `freedom` degrees of freedom is at least |t| away from 0.

    Two-sided. The finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4, exact to about 1e-15.
    """
    angle = math.atan(abs(t) / math.sqrt(freedom))
    odd = freedom % 2
    square = math.cos(angle) ** 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for k in range(2 + odd, freedom + 1, 2):
        total += term
        term *= square * (k - 1) / k
    inside = math.sin(angle) * total
    if odd:
        inside = 2 / math.pi * (angle + inside)
    return max(1 - inside, 0.0)


def student_point(level: float, freedom: int) -> float:
    """The t > 0 whose `student_tail` is `level`, by bisection: 12.706 for 0.05 and 1."""
    low = 0.0
    high = 1.0
    while student_tail(high, freedom) > level:
        low = high
        high *= 2
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        if student_tail(middle, freedom) > level:
            low = middle
        else:
            high = middle
    return high


# Tests


def normal_p(value: float, low: float, high: float) -> float:
    """Two-sided p of a value whose 95 % interval is low to high, if its error is normal.

    1.0 where value and interval are 0, and 0.0 where only the interval has no width.
    """
    error = (high - low) / (2 * Z95)
    if not error:
        return 0.0 if value else 1.0
    return math.erfc(abs(value) / error / math.sqrt(2))


def holm(p_values: Sequence[float]) -> list[float]:
    """p values corrected for their number, in the same order (Holm 1979).

    The k-th smallest of n, counted from 0, is multiplied by n - k; none is below a smaller one,
    and none above 1. Valid whatever the dependence between the tests.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        multiplied = min((len(p_values) - rank) * p_values[index], 1.0)
        largest = max(largest, multiplied)
        corrected[index] = largest
    return corrected
