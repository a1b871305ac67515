"""How sure a difference between two settings is: over the texts that both were measured on, and over seeds.

Texts and seeds are two crossed sources of chance (Bouthillier et al. 2021, arXiv:2103.03098; Owen 2007), and each gets
an error of its own: that of the texts by a bootstrap that draws whole stories (or prompts, or pairs) with all of their
tokens, from the means over seeds; that of the seeds from the spread of the runs' figures, seed by seed where both
settings have the same ones. A difference counts at level a if it is larger than

    sqrt((t_seeds * error_seeds)^2 + (t_texts * error_texts)^2)

with each error's own point of Student's t at a, which keeps the level whatever the two variances are (Banerjee 1960);
one t with the degrees of freedom of Welch and Satterthwaite claims several times too much with three seeds and many
comparisons. What one seed does to one story is in both errors, which again errs on the safe side (Cameron, Gelbach and
Miller 2011 would subtract it). No difference is claimed where the spread over seeds is not known.
"""

import dataclasses
import functools
import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from tinylm.evaluate.statistics import (
    Statistic,
    paired_interval,
    student_point,
    student_tail,
    unpaired_interval,
)

RESAMPLES, SEED, LEVEL = 4000, 1, 0.95
ALPHA = 1 - LEVEL  # chance that a comparison of any number of runs claims anything that is not so
LEAST = 1e-12  # p that is told
FEWEST = 5  # stories or prompts; with fewer, the bootstrap interval is too narrow; with one, it has no width
NO_CLAIM = "no difference claimed"
NORMAL = statistics.NormalDist().inv_cdf((1 + LEVEL) / 2)


@dataclasses.dataclass(frozen=True)
class Spread:
    """95 % bound on the difference between two runs that differ only in seed, estimated from `seeds` runs."""

    difference: float
    seeds: int


@dataclasses.dataclass(frozen=True)
class BySeeds:
    """Standard error of a difference that comes from seeds, its degrees of freedom, the seeds of both sides."""

    error: float
    freedom: int
    counts: tuple[int, int]
    paired: bool

    @property
    def spread(self) -> Spread:
        """How far apart two means over as many seeds are by their seeds alone, in 95 of 100 cases."""
        return Spread(student_point(1 - LEVEL, self.freedom) * self.error, self.freedom + 1)

    def p(self, value: float) -> float:
        """Probability of a difference at least as large as `value` by seeds alone."""
        return (
            student_tail(value / self.error if self.error else math.inf, self.freedom)
            if value
            else 1.0
        )


@dataclasses.dataclass(frozen=True)
class Difference:
    """A figure of two settings, first and second, over the same things; low and high: 95 % interval of second - first.

    The interval covers the texts and, where `seeds` is known, the seeds. error: standard error over the texts.
    """

    first: float
    second: float
    low: float
    high: float
    count: int  # stories or prompts that both were measured on
    error: float
    paired: bool = True
    seeds: BySeeds | None = None

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
        """The lowest level at which the difference counts; None where the share of seeds is not known.

        Found by bisection of its logarithm, to four digits; below LEAST it is LEAST.
        """
        if self.seeds is None or not math.isfinite(self.value):
            return None
        low, high = math.log(LEAST), 0.0
        if not self.error:
            return self.seeds.p(self.value)
        if abs(self.value) >= reach(LEAST, self.seeds, self.error, self.count):
            return LEAST
        while high - low > 1e-4:
            middle = (low + high) / 2
            counts = abs(self.value) >= reach(math.exp(middle), self.seeds, self.error, self.count)
            low, high = (low, middle) if counts else (middle, high)
        return math.exp(high)

    def over(self, seeds: BySeeds | None) -> "Difference":
        """The same with the chance of seeds in its interval."""
        if seeds is None:
            return self
        half = reach(1 - LEVEL, seeds, self.error, self.count)
        return dataclasses.replace(self, low=self.value - half, high=self.value + half, seeds=seeds)


def freedom_of(texts: float) -> int:
    """Degrees of freedom of an error over texts: one less than there are, at least 1; beyond 100 they hardly matter."""
    return int(min(max(texts - 1, 1), 100))


def reach(level: float, seeds: BySeeds, error: float, texts: int) -> float:
    """What a difference has to exceed at this level."""
    parts = (seeds.error, seeds.freedom), (error, freedom_of(texts))
    return math.hypot(*(student_point(level, freedom) * part for part, freedom in parts if part))


def paired_difference(first: np.ndarray, second: np.ndarray, statistic: Statistic) -> Difference:
    """Percentile interval of statistic(second) - statistic(first) over resamples that draw the same rows from both.

    first, second (S, K): row i of both is for the same story; statistic maps means over rows (..., K) to (...). What
    makes a story hard for both runs cancels in the difference (Koehn 2004). Raises ValueError if there is no row.
    """
    low, high = paired_interval(first, second, statistic, RESAMPLES, SEED, LEVEL)
    one, other = (float(statistic(table.mean(axis=0))) for table in (first, second))
    return Difference(one, other, low, high, len(first), (high - low) / (2 * NORMAL))


def unpaired_difference(first: np.ndarray, second: np.ndarray, statistic: Statistic) -> Difference:
    """The same for runs that were measured on different stories: (S, K) and (Z, K).

    From the interval of each alone (Zou and Donner 2008): low = d - sqrt((f_high - f)^2 + (s - s_low)^2), and similarly
    for high. The count is that of the smaller table.
    """
    low, high = unpaired_interval(first, second, statistic, RESAMPLES, SEED, LEVEL)
    one, other = (float(statistic(table.mean(axis=0))) for table in (first, second))
    count = min(len(first), len(second))
    return Difference(one, other, low, high, count, (high - low) / (2 * NORMAL), paired=False)


def shared_seeds(first: Mapping[int, object], second: Mapping[int, object]) -> list[int]:
    """The seeds of the side that has fewer, if they are two or more and the other side has all of them; else none."""
    shared = sorted(first.keys() & second.keys())
    return shared if len(shared) == min(len(first), len(second)) > 1 else []


def seed_error(
    first: Mapping[int, float], second: Mapping[int, float], known: BySeeds | None = None
) -> BySeeds | None:
    """Standard error of mean(second) - mean(first) of figures by seed, None if it cannot be told.

    With `shared_seeds`, that of their differences. Otherwise the variances of both sides add up (Welch 1947), with the
    smaller side's degrees of freedom; a side with one run is taken to vary as the other. `known`: for one run on each.
    """
    if not np.isfinite([*first.values(), *second.values()]).all():
        return None
    counts = len(first), len(second)
    if shared := shared_seeds(first, second):
        error = statistics.stdev(second[seed] - first[seed] for seed in shared) / math.sqrt(
            len(shared)
        )
        return BySeeds(error, len(shared) - 1, (len(shared), len(shared)), paired=True)
    variances = [statistics.variance(side.values()) for side in (first, second) if len(side) > 1]
    if not variances:
        return known
    error = math.sqrt(variances[0] / counts[0] + variances[-1] / counts[1])
    return BySeeds(error, min(count for count in counts if count > 1) - 1, counts, paired=False)


Tables = Mapping[int, np.ndarray]  # seed -> (S, K)


def difference(
    sides: Sequence[Tables],
    statistic: Statistic,
    known: BySeeds | None = None,
    same_rows: bool = True,
) -> Difference:
    """Two settings by the tables of their runs, whose rows are the same stories for all runs of a side.

    same_rows: of both sides. Each side's figure is that of its mean over seeds: for perplexity exp of the mean loss.
    """
    if shared := shared_seeds(*sides):
        sides = [{seed: side[seed] for seed in shared} for side in sides]
    one, other = (np.mean(list(side.values()), axis=0) for side in sides)
    over_texts = (paired_difference if same_rows else unpaired_difference)(one, other, statistic)
    first, second = (
        {seed: float(statistic(rows.mean(axis=0))) for seed, rows in side.items()} for side in sides
    )
    return over_texts.over(seed_error(first, second, known))


def claimed(better: bool, p: float, comparisons: int = 1) -> str:
    """What may be said of a difference whose corrected p is this: a claim if p <= 0.05."""
    told = f"p = {p:.2g}" + (f" after {comparisons} comparisons" if comparisons > 1 else "")
    return f"{'better' if better else 'worse'}; {told}" if p <= ALPHA else f"{NO_CLAIM}: {told}"
