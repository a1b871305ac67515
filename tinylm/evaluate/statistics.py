"""Intervals and tests: bootstrap, Wilson, Student's t, Holm, differences over texts and seeds.

The project's one statistics module. It needs numpy only, so that reports and comparisons start without torch.
"""

import dataclasses
import functools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np

Statistic = Callable[[np.ndarray], np.ndarray]  # column means (..., K) -> (...)
Tables = Mapping[int, np.ndarray]  # seed -> (S, K), a row for each text

Z95 = 1.96  # standard deviations from the centre to either end of a 95 % normal interval
LEVEL = 0.95  # of the intervals of differences
ALPHA = 1 - LEVEL  # chance that a comparison of any number of runs claims anything false
RESAMPLES = 4000  # of texts, for the interval of a difference
SMALLEST_P = 1e-12
NO_CLAIM = "no difference claimed"
_RESAMPLING_SEED = 1
_HALF_WIDTH = statistics.NormalDist().inv_cdf((1 + LEVEL) / 2)  # of an interval, in errors
_DRAWS_AT_ONCE = 1_000_000  # a block of resamples then uses some tens of MiB


def mean(means: np.ndarray) -> np.ndarray:
    """The mean of one value per sample.  (..., K) -> (...)"""
    return means[..., 0]


def pooled_ratio(means: np.ndarray) -> np.ndarray:
    """All of column 0 / all of column 1.  (..., 2) -> (...)"""
    return means[..., 0] / means[..., 1]


def pooled_perplexity(means: np.ndarray) -> np.ndarray:
    """exp(all nats / all tokens) of samples given as (nats, tokens).  (..., 2) -> (...)"""
    return np.exp(pooled_ratio(means))


def bootstrap_interval(
    values: np.ndarray, statistic: Statistic, resamples: int, seed: int
) -> tuple[float, float]:
    """The interval of one statistic: see `bootstrap_intervals`.

    statistic maps the means of resamples (R, K) to (R,): `mean`, `pooled_perplexity`,
    `tinylm.evaluate.bleu.corpus_bleu`, or any function of column means. The ends are rounded to
    ten digits, since the last ones depend on the order in which a CPU adds.
    """
    low, high = bootstrap_intervals(values, statistic, resamples, seed)
    return float(f"{low:.10g}"), float(f"{high:.10g}")


def bootstrap_intervals(
    values: np.ndarray, statistic: Statistic, resamples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """95 % percentile intervals over samples drawn with replacement (Efron 1979): lows and highs.

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
    tail = (1 - LEVEL) / 2
    values_of_resamples = np.concatenate(resampled)
    low, high = np.quantile(values_of_resamples, [tail, 1 - tail], axis=0)
    return low, high


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
    low = max(centre - half, 0.0)
    high = min(centre + half, 1.0)
    return {"value": share, "low": low, "high": high}


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
    and none above 1. Valid for any dependence between the tests.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, index in enumerate(order):
        multiplied = min((len(p_values) - rank) * p_values[index], 1.0)
        largest = max(largest, multiplied)
        corrected[index] = largest
    return corrected


# A difference between two settings
#
# Texts and seeds are two crossed sources of chance (Bouthillier et al. 2021, arXiv:2103.03098; Owen 2007). Each has an
# error of its own. That of the texts comes from a bootstrap that draws whole stories (or prompts, or pairs) from the
# means over seeds. That of the seeds comes from the spread of the runs' metrics, seed by seed where both settings have
# the same seeds. A difference counts at a level if it is larger than
#
#     sqrt((t_seeds * error_seeds)^2 + (t_texts * error_texts)^2)
#
# with a point of Student's t for each error, which keeps the level for any two variances (Banerjee
# 1960). A single t with the degrees of freedom of Welch and Satterthwaite makes several times too
# many claims with three seeds and many comparisons. The interaction of seed and story is in both errors,
# which is conservative (Cameron, Gelbach and Miller 2011 subtract it).


@dataclasses.dataclass(frozen=True)
class SeedError:
    """Standard error of a difference that comes from seeds, and its degrees of freedom."""

    error: float
    freedom: int
    paired: bool  # seed by seed

    @property
    def bound(self) -> float:
        """How far apart two such means are by their seeds alone, in 95 of 100 cases."""
        return student_point(ALPHA, self.freedom) * self.error

    def p(self, value: float) -> float:
        """Probability of a difference at least as large as `value` by seeds alone."""
        if not value:
            return 1.0
        if not self.error:
            return 0.0
        return student_tail(value / self.error, self.freedom)


@dataclasses.dataclass(frozen=True)
class Difference:
    """A metric of two settings over the same texts; low, high: 95 % interval of second - first.

    The interval covers the texts and, where `seeds` is not None, the seeds.
    """

    first: float
    second: float
    low: float
    high: float
    count: int  # texts that both were measured on
    error: float  # standard error over the texts
    seeds: SeedError | None = None

    @property
    def value(self) -> float:
        """second - first"""
        return self.second - self.first

    @functools.cached_property
    def p(self) -> float | None:
        """The lowest level at which the difference counts; None where the seeds' error is unknown.

        By bisection of its logarithm, to four digits, and never below SMALLEST_P.
        """
        if self.seeds is None or not math.isfinite(self.value):
            return None
        if not self.error:
            return self.seeds.p(self.value)
        low = math.log(SMALLEST_P)
        high = 0.0
        while high - low > 1e-4:
            middle = (low + high) / 2
            critical = critical_value(math.exp(middle), self.seeds, self.error, self.count)
            if abs(self.value) >= critical:
                high = middle
            else:
                low = middle
        return math.exp(high)


def text_freedom(texts: float) -> int:
    """Degrees of freedom of an error over texts; beyond 100 they hardly matter."""
    return int(min(max(texts - 1, 1), 100))


def critical_value(level: float, seeds: SeedError, error: float, texts: int) -> float:
    """The size that a difference must exceed at this level. error: over this many texts."""
    by_seeds = student_point(level, seeds.freedom) * seeds.error
    by_texts = student_point(level, text_freedom(texts)) * error
    return math.hypot(by_seeds, by_texts)


def shared_seeds(first: Mapping[int, object], second: Mapping[int, object]) -> list[int]:
    """The smaller side's seeds, if they are two or more and the other has them all; else none."""
    shared = sorted(first.keys() & second.keys())
    smaller_side = min(len(first), len(second))
    if len(shared) < max(smaller_side, 2):
        return []
    return shared


def seed_error(
    first: Mapping[int, float], second: Mapping[int, float], recorded: SeedError | None = None
) -> SeedError | None:
    """Standard error of mean(second) - mean(first), metrics by seed; None if it is unknown.

    With `shared_seeds`, that of their differences. Otherwise the variances of both sides add up
    (Welch 1947), with the smaller side's degrees of freedom; a side with one run is taken to vary
    as the other. recorded: the error for one run on each side, from stage seeds.
    """
    values = [*first.values(), *second.values()]
    if not np.isfinite(values).all():
        return None
    if shared := shared_seeds(first, second):
        deviation = statistics.stdev(second[seed] - first[seed] for seed in shared)
        error = deviation / math.sqrt(len(shared))
        return SeedError(error, len(shared) - 1, paired=True)
    several = [side for side in (first, second) if len(side) > 1]
    if not several:
        return recorded
    variances = [statistics.variance(side.values()) for side in several]
    variance = variances[0] / len(first) + variances[-1] / len(second)
    freedom = min(map(len, several)) - 1
    return SeedError(math.sqrt(variance), freedom, paired=False)


def difference_of(
    first: Tables, second: Tables, statistic: Statistic, recorded: SeedError | None = None
) -> Difference:
    """Two settings by the tables of their runs, whose rows are the same texts for all runs.

    Every resample draws the same rows from both. A side's metric is that of its mean over seeds:
    for perplexity, exp of the mean loss.
    recorded: see `seed_error`.
    """
    if shared := shared_seeds(first, second):
        first = {seed: first[seed] for seed in shared}
        second = {seed: second[seed] for seed in shared}
    one = np.mean(list(first.values()), axis=0)
    other = np.mean(list(second.values()), axis=0)
    low, high = paired_interval(one, other, statistic, RESAMPLES, _RESAMPLING_SEED)
    error = (high - low) / (2 * _HALF_WIDTH)
    count = len(one)
    first_value = float(statistic(one.mean(axis=0)))
    second_value = float(statistic(other.mean(axis=0)))
    seeds = seed_error(_by_seed(first, statistic), _by_seed(second, statistic), recorded)
    if seeds is not None:
        value = second_value - first_value
        half = critical_value(ALPHA, seeds, error, count)
        low = value - half
        high = value + half
    return Difference(first_value, second_value, low, high, count, error, seeds)


def _by_seed(tables: Tables, statistic: Statistic) -> dict[int, float]:
    return {seed: float(statistic(rows.mean(axis=0))) for seed, rows in tables.items()}


def verdict(better: bool, p: float, comparisons: int = 1) -> str:
    """The sentence on a difference with this corrected p: a claim if p <= 0.05."""
    sentence = f"p = {p:.2g}"
    if comparisons > 1:
        sentence += f" after {comparisons} comparisons"
    if p > ALPHA:
        return f"{NO_CLAIM}: {sentence}"
    return f"{'better' if better else 'worse'}; {sentence}"
