"""How sure a difference between two settings is: over the texts that both were measured on, and over seeds.

Texts and seeds are two crossed sources of chance (Bouthillier et al. 2021, arXiv:2103.03098; Owen 2007). Each gets an
error of its own. That of the texts comes from a bootstrap that draws whole stories (or prompts, or pairs) from the
means over seeds. That of the seeds comes from the spread of the runs' metrics, seed by seed where both settings have
the same seeds. A difference counts at level a if it is larger than

    sqrt((t_seeds * error_seeds)^2 + (t_texts * error_texts)^2)

with each error's own point of Student's t at a, which keeps the level whatever the two variances are (Banerjee 1960).
One t with the degrees of freedom of Welch and Satterthwaite claims several times too much with three seeds and many
comparisons. What one seed does to one story is in both errors, which again errs on the safe side (Cameron, Gelbach and
Miller 2011 would subtract it). No difference is claimed where the spread over seeds is unknown.
"""

import dataclasses
import functools
import math
import statistics
from collections.abc import Mapping

import numpy as np

from tinylm.evaluate.statistics import (
    Statistic,
    paired_interval,
    student_point,
    student_tail,
    unpaired_interval,
)

RESAMPLES = 4000
SEED = 1
LEVEL = 0.95
ALPHA = 1 - LEVEL  # chance that a comparison of any number of runs claims anything false
SMALLEST_P = 1e-12
MIN_TEXTS = 5  # with fewer stories or prompts, the bootstrap interval is too narrow
NO_CLAIM = "no difference claimed"
_HALF_WIDTH = statistics.NormalDist().inv_cdf((1 + LEVEL) / 2)  # of an interval, in errors

Tables = Mapping[int, np.ndarray]  # seed -> (S, K), a row for each text


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

    The interval covers the texts and, where `seeds` is known, the seeds.
    """

    first: float
    second: float
    low: float
    high: float
    count: int  # texts that both were measured on
    error: float  # standard error over the texts
    paired: bool = True  # text by text
    seeds: SeedError | None = None

    @property
    def value(self) -> float:
        """second - first"""
        return self.second - self.first

    @property
    def holds_zero(self) -> bool:
        """Whether the interval leaves open which of the two is larger."""
        return self.low <= 0 <= self.high

    @functools.cached_property
    def p(self) -> float | None:
        """The lowest level at which the difference counts; None where the seeds' error is unknown.

        Found by bisection of its logarithm, to four digits, and never below SMALLEST_P.
        """
        if self.seeds is None or not math.isfinite(self.value):
            return None
        if not self.error:
            return self.seeds.p(self.value)
        low = math.log(SMALLEST_P)
        high = 0.0
        while high - low > 1e-4:
            middle = (low + high) / 2
            if abs(self.value) >= critical_value(
                math.exp(middle), self.seeds, self.error, self.count
            ):
                high = middle
            else:
                low = middle
        return math.exp(high)

    def with_seeds(self, seeds: SeedError | None) -> "Difference":
        """The same with the chance of seeds in its interval."""
        if seeds is None:
            return self
        half = critical_value(ALPHA, seeds, self.error, self.count)
        low = self.value - half
        high = self.value + half
        return dataclasses.replace(self, low=low, high=high, seeds=seeds)


def text_freedom(texts: float) -> int:
    """Degrees of freedom of an error over texts; beyond 100 they hardly matter."""
    return int(min(max(texts - 1, 1), 100))


def critical_value(level: float, seeds: SeedError, error: float, texts: int) -> float:
    """What a difference has to exceed at this level. error: over so many texts."""
    by_seeds = student_point(level, seeds.freedom) * seeds.error
    by_texts = student_point(level, text_freedom(texts)) * error
    return math.hypot(by_seeds, by_texts)


def text_difference(
    first: np.ndarray, second: np.ndarray, statistic: Statistic, paired: bool = True
) -> Difference:
    """The difference between statistic(second) and statistic(first), with its error over texts.

    first (S, K), second (Z, K): a row for each text. paired: row i of both is the same text, and
    every resample draws the same rows from both. The count is that of the smaller table.
    """
    interval = paired_interval if paired else unpaired_interval
    low, high = interval(first, second, statistic, RESAMPLES, SEED, LEVEL)
    error = (high - low) / (2 * _HALF_WIDTH)
    return Difference(
        float(statistic(first.mean(axis=0))),
        float(statistic(second.mean(axis=0))),
        low,
        high,
        min(len(first), len(second)),
        error,
        paired,
    )


def shared_seeds(first: Mapping[int, object], second: Mapping[int, object]) -> list[int]:
    """The smaller side's seeds, if they are two or more and the other has them all; else none."""
    shared = sorted(first.keys() & second.keys())
    if len(shared) < 2 or len(shared) < min(len(first), len(second)):
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
    if not np.isfinite([*first.values(), *second.values()]).all():
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


def difference(
    first: Tables,
    second: Tables,
    statistic: Statistic,
    recorded: SeedError | None = None,
    paired: bool = True,
) -> Difference:
    """Two settings by the tables of their runs, whose rows are the same texts for all seeds.

    paired: rows are the same texts on both sides. A side's metric is that of its mean over seeds:
    for perplexity, exp of the mean loss. recorded: see `seed_error`.
    """
    if shared := shared_seeds(first, second):
        first = {seed: first[seed] for seed in shared}
        second = {seed: second[seed] for seed in shared}
    means = [np.mean(list(side.values()), axis=0) for side in (first, second)]
    over_texts = text_difference(means[0], means[1], statistic, paired)
    by_seed = []
    for side in (first, second):
        by_seed.append({seed: float(statistic(rows.mean(axis=0))) for seed, rows in side.items()})
    return over_texts.with_seeds(seed_error(by_seed[0], by_seed[1], recorded))


def claimed(better: bool, p: float, comparisons: int = 1) -> str:
    """The verdict on a difference with this corrected p: a claim if p <= 0.05."""
    numbers = f"p = {p:.2g}"
    if comparisons > 1:
        numbers += f" after {comparisons} comparisons"
    if p > ALPHA:
        return f"{NO_CLAIM}: {numbers}"
    return f"{'better' if better else 'worse'}; {numbers}"
