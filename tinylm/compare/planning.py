"""How many seeds and stories a comparison wants, by the noise of earlier runs.

Between two settings with n seeds each and m stories, the mean loss per token differs by chance with variance

    V = V_seeds / n + V_stories / m

V_seeds: of the difference between two runs of one seed each, V_stories: of what one story adds to the difference of a
pair of runs. The power is that of the test of `statistics.reach`, over the scaled chi-square distribution of its
estimate of V_seeds with n - 1 degrees of freedom; V_stories is taken as known, for there are many stories. The idea of
planning from both sources of chance is that of Bouthillier et al. 2021 (arXiv:2103.03098), that of holding the plan
against the upper end of the interval of a spread that few runs told is Browne's (1995).
"""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from tinylm.base.config import InputError
from tinylm.compare.groups import Group, grouped
from tinylm.compare.pairing import pair_up
from tinylm.compare.runs import Run
from tinylm.compare.statistics import FEWEST, freedom_of, shared_seeds
from tinylm.evaluate.statistics import student_point
from tinylm.report.wording import many

MOST_SEEDS, MOST_STORIES = 10_000, 100_000_000
_ROWS = 6  # of a table of plans
_CDF = np.vectorize(statistics.NormalDist().cdf)
_point = cache(student_point)


@dataclasses.dataclass(frozen=True)
class Variance:
    """An estimate, its degrees of freedom, and from how many settings (or pairs of them, or of runs) it is pooled."""

    value: float
    freedom: int
    of: int

    @property
    def sd(self) -> float:
        """Its root."""
        return math.sqrt(self.value)

    def sd_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Ends for the true root, by the chi-square distribution: (low, high)."""
        places, weights = _chi_square(self.freedom)
        ends = np.interp(
            [(1 + level) / 2, (1 - level) / 2], np.cumsum(weights) - weights / 2, places
        )
        return self.sd / math.sqrt(ends[0]), self.sd / math.sqrt(ends[1])


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The noise of earlier runs, in squared nats per token; each None where it was not recorded.

    one: between runs that differ in seed alone. paired: between the differences of two settings, seed by seed.
    stories: of what a story adds to the difference of two runs, of `now` stories.
    """

    one: Variance | None
    paired: Variance | None
    stories: Variance | None
    now: int

    @property
    def seeds(self) -> float:
        """V_seeds: by pairs of the same seed where there are some, otherwise two independent runs'."""
        if self.paired is not None:
            return self.paired.value
        assert self.one is not None
        return 2 * self.one.value


def recorded(runs: Sequence[Run]) -> Recorded:
    """The noise that these runs tell, pooled over their settings."""
    groups = grouped(runs)
    losses = [_losses(group) for group in groups]
    one = [list(by_seed.values()) for by_seed in losses]
    both = [(a, b, shared_seeds(a, b)) for a, b in itertools.pairwise(losses)]
    paired = [[b[seed] - a[seed] for seed in shared] for a, b, shared in both]
    stories, now = _stories(groups)
    return Recorded(_pooled(one), _pooled(paired), stories, now)


def _losses(group: Group) -> dict[int, float]:
    """Nats per token by seed: of the stories, else of what the stages recorded."""
    told = {
        seed: float(stories.nats.sum() / stories.tokens.sum())
        for seed, stories in group.stories.items()
    }
    return {
        seed: loss
        for seed, loss in (group.figures("nats_per_token") | told).items()
        if math.isfinite(loss)
    }


def _pooled(samples: Sequence[Sequence[float]]) -> Variance | None:
    """The variance within samples, of those with two values or more."""
    several = [sample for sample in samples if len(sample) > 1]
    if not several:
        return None
    freedom = sum(len(sample) - 1 for sample in several)
    squares = sum(statistics.variance(sample) * (len(sample) - 1) for sample in several)
    return Variance(squares / freedom, freedom, len(several))


def _stories(groups: Sequence[Group]) -> tuple[Variance | None, int]:
    """(V_stories, the stories of a run): over pairs of neighbouring settings, else over pairs of seeds."""
    pairs: list[
        tuple[np.ndarray, np.ndarray]
    ] = []  # of the same stories: what each gained, its tokens
    for first, second in itertools.pairwise(groups):
        if (found := pair_up(first.first, second.first)).same_tokens:
            left, right = found.stories.T
            one, other = first.stories, second.stories
            for a, b in [(seed, seed) for seed in one if seed in other] or [
                (next(iter(one)), next(iter(other)))
            ]:
                pairs.append((other[b].nats[right] - one[a].nats[left], one[a].tokens[left]))
    for group in groups if not pairs else ():
        pairs += [
            (b.nats - a.nats, a.tokens) for a, b in itertools.pairwise(group.stories.values())
        ]
    now = max((len(stories) for group in groups for stories in group.stories.values()), default=0)
    variances = [_of_ratio(*pair) for pair in pairs if len(pair[0]) > 1]
    if not variances or not np.isfinite(variances).all():
        return None, now
    return Variance(
        statistics.fmean(variances), min(len(gained) for gained, _ in pairs) - 1, len(pairs)
    ), now


def _of_ratio(gained: np.ndarray, tokens: np.ndarray) -> float:
    """Variance of what one story adds to sum(gained) / sum(tokens), by linearisation (Cochran 1977, 2.9)."""
    rest = gained - gained.sum() / tokens.sum() * tokens
    return float((rest**2).sum() / (len(rest) - 1) / tokens.mean() ** 2)


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a comparison is to detect: a difference in nats per token, with this power, at this level corrected for so
    many comparisons (the first step of Holm's correction, so that it holds whatever the others show)."""

    effect: float
    power: float = 0.8
    level: float = 0.05
    comparisons: int = 1


@cache
def _chi_square(freedom: int) -> tuple[np.ndarray, np.ndarray]:
    """Places x of chi-square / freedom, and the probability that each stands for.  (P,), (P,)"""
    width = 8 / math.sqrt(freedom)
    roots = np.exp(np.linspace(-width - 4 / freedom, min(width, 2.5), 1200))
    log_density = freedom * (np.log(roots) - roots**2 / 2)
    weights = np.exp(log_density - log_density.max())
    return roots**2, weights / weights.sum()


def power(wanted: Wanted, by_seeds: float, by_stories: float, seeds: int, stories: float) -> float:
    """Probability that the test claims a true difference of this size, in either direction."""
    from_seeds, from_stories = by_seeds / seeds, by_stories / stories
    total = math.sqrt(from_seeds + from_stories)
    if total == 0:
        return 1.0
    places, weights = _chi_square(seeds - 1)
    level = wanted.level / wanted.comparisons
    by_seed, by_text = (_point(level, freedom) ** 2 for freedom in (seeds - 1, freedom_of(stories)))
    bound = np.sqrt(by_seed * from_seeds * places + by_text * from_stories)
    found = _CDF((wanted.effect - bound) / total) + _CDF((-wanted.effect - bound) / total)
    return float(weights @ found)


def stories_for(wanted: Wanted, by_seeds: float, by_stories: float, seeds: int) -> int | None:
    """The fewest stories with which so many seeds have the power; None if no number of stories gives it."""

    def enough(stories: int) -> bool:
        return power(wanted, by_seeds, by_stories, seeds, stories) >= wanted.power

    return _fewest(enough, FEWEST, MOST_STORIES)


def seeds_for(
    wanted: Wanted, by_seeds: float, by_stories: float, stories: float = math.inf
) -> int | None:
    """The fewest seeds that have the power with so many stories; None if no number of seeds gives it."""

    def enough(seeds: int) -> bool:
        return power(wanted, by_seeds, by_stories, seeds, stories) >= wanted.power

    return _fewest(enough, 2, MOST_SEEDS)


def _fewest(enough: Callable[[int], bool], low: int, most: int) -> int | None:
    high = low
    while not enough(high):
        low, high = high, 2 * high
        if high > most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def rows(wanted: Wanted, by_seeds: float, by_stories: float) -> list[tuple[int, int]]:
    """(seeds, stories) that have the power, from the fewest seeds on, each row with half as many more.

    The last row is where more seeds spare hardly any stories. Empty if no number of seeds has the power.
    """
    seeds = seeds_for(wanted, by_seeds, 0.0)
    found: list[tuple[int, int]] = []
    while seeds is not None and len(found) < _ROWS:
        stories = stories_for(wanted, by_seeds, by_stories, seeds)
        if stories is not None:
            if found and stories > 0.9 * found[-1][1]:
                break
            found.append((seeds, stories))
        seeds += max(seeds // 2, 1)
    return found


def plan(noise: Recorded, wanted: Wanted) -> list[str]:
    """Lines for the terminal: the noise with its own uncertainty, then the plans.

    Raises InputError if no number of seeds up to `MOST_SEEDS` has the power.
    """
    used = noise.paired or noise.one
    assert used is not None
    by_stories = noise.stories.value if noise.stories else 0.0
    found = rows(wanted, noise.seeds, by_stories)
    if not found:
        raise InputError(
            f"--effect {wanted.effect:g}: more than {MOST_SEEDS:,} seeds; allowed: a larger difference"
        )
    lines = ["Noise of the runs so far, as standard deviations in nats per token:"]
    if noise.one:
        lines.append(f"  between seeds, of one run               {_told(noise.one, 'setting')}")
    if noise.paired:
        lines.append(f"  of the difference, seed by seed         {_told(noise.paired, 'pair')}")
    if noise.stories:
        lines.append(
            f"  between stories, of a pair's difference {noise.stories.sd:.3g} ({many(noise.stories.of, 'pair')} of "
            f"runs, {noise.stories.freedom + 1:,} stories)"
        )
    corrected = (
        f", corrected for {wanted.comparisons} comparisons" if wanted.comparisons > 1 else ""
    )
    lines += [
        "",
        f"To find a difference of {wanted.effect:g} nats per token with a power of {100 * wanted.power:g} % at a level "
        f"of {100 * wanted.level:g} %{corrected}, each setting wants",
    ]
    present: int | None = found[0][0]
    if noise.stories is None:
        lines += [
            f"  {present:,} seeds",
            "Stories are not accounted for: no two runs recorded the losses of the same stories.",
        ]
    else:
        lines += [
            f"  {seeds:,} seeds with {stories:,} evaluation stories or more"
            for seeds, stories in found
        ]
        present = seeds_for(wanted, noise.seeds, by_stories, noise.now)
        enough = (
            f"{present:,} seeds"
            if present
            else f"no number of seeds up to {MOST_SEEDS:,} is enough"
        )
        lines.append(f"With the {noise.now:,} evaluation stories of now: {enough}.")
    upper = noise.seeds * (used.sd_interval()[1] / used.sd) ** 2 if used.value else 0.0
    most = seeds_for(wanted, upper, by_stories, (noise.now or math.inf) if present else math.inf)
    wants = f"{most:,} seeds" if most else f"more than {MOST_SEEDS:,} seeds"
    beside = "" if present else ", and more stories"
    return [
        *lines,
        f"If the spread between seeds is at the upper end of its interval: {wants}{beside}.",
    ]


def _told(found: Variance, of: str) -> str:
    low, high = found.sd_interval()
    freedom = f"{many(found.freedom, 'degree')} of freedom"
    return f"{found.sd:.3g} (95 %: {low:.3g} to {high:.3g}; {many(found.of, of)}, {freedom})"
