"""How many seeds and stories a comparison needs, by the noise of earlier runs.

Between two settings with n seeds each and m stories, the mean loss per token differs by chance with variance

    V = V_seeds / n + V_stories / m

V_seeds is that of the difference between two runs of one seed each, V_stories that of what one story adds to the
difference of a pair of runs. The power is that of the test of `difference.critical_value`, over the chi-square
distribution of its estimate of V_seeds with n - 1 degrees of freedom; V_stories is taken as known, since there are many
stories. Planning from both sources of chance follows Bouthillier et al. 2021 (arXiv:2103.03098), and the plan for the
upper end of the interval of a spread that few runs gave Browne (1995).
"""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd

from tinylm.base.config import InputError
from tinylm.compare.pairing import pair_up
from tinylm.compare.runs import Run, Setting, settings_of
from tinylm.evaluate.statistics import shared_seeds, student_point, text_freedom

MOST_SEEDS = 10_000
_STORY_FACTORS = (1, 2, 5, 10, 100)  # times the stories of now
_CDF = np.vectorize(statistics.NormalDist().cdf)
_point = cache(student_point)


@dataclasses.dataclass(frozen=True)
class Variance:
    """An estimate in squared nats per token, its degrees of freedom, and the number of samples."""

    value: float
    freedom: int
    samples: int

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.value)

    def deviation_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Interval of the true standard deviation, by the chi-square distribution."""
        points, weights = _chi_square(self.freedom)
        tails = [(1 + level) / 2, (1 - level) / 2]
        ends = np.interp(tails, np.cumsum(weights) - weights / 2, points)
        low, high = self.deviation / np.sqrt(ends)
        return float(low), float(high)


@dataclasses.dataclass(frozen=True)
class Noise:
    """The noise of earlier runs; a variance is None where it was not recorded.

    seeds: between runs that differ in seed alone. paired: between the differences of two settings,
    seed by seed. stories: of what a story adds to the difference of two runs. count: the stories.
    """

    seeds: Variance | None
    paired: Variance | None
    stories: Variance | None
    count: int

    @property
    def of_difference(self) -> float:
        """V_seeds: by pairs of the same seed where there are some, else of two independent runs."""
        if self.paired is not None:
            return self.paired.value
        assert self.seeds is not None
        return 2 * self.seeds.value


def recorded_noise(runs: Sequence[Run]) -> Noise:
    """The noise that these runs recorded, pooled over their settings."""
    settings = settings_of(runs)
    losses = [_losses(setting) for setting in settings]
    paired = []
    for one, other in itertools.pairwise(losses):
        paired.append([other[seed] - one[seed] for seed in shared_seeds(one, other)])
    single = [list(by_seed.values()) for by_seed in losses]
    counts = [len(run.stories) for run in runs if run.stories is not None]
    count = max(counts, default=0)
    return Noise(_pooled(single), _pooled(paired), _story_variance(settings), count)


def _losses(setting: Setting) -> dict[int, float]:
    """Nats per token by seed: of the stories, else as the stages recorded them."""
    losses = setting.metric("nats_per_token")
    for seed, stories in setting.stories.items():
        losses[seed] = stories["nats"].sum() / stories["tokens"].sum()
    return {seed: loss for seed, loss in losses.items() if math.isfinite(loss)}


def _pooled(samples: Sequence[Sequence[float]]) -> Variance | None:
    """The variance within samples, of those with two values or more."""
    several = [sample for sample in samples if len(sample) > 1]
    if not several:
        return None
    freedom = sum(len(sample) - 1 for sample in several)
    squares = sum(statistics.variance(sample) * (len(sample) - 1) for sample in several)
    return Variance(squares / freedom, freedom, len(several))


def _story_variance(settings: Sequence[Setting]) -> Variance | None:
    """V_stories, over pairs of neighbouring settings, else over pairs of seeds."""
    pairs = []
    for first, second in itertools.pairwise(settings):
        shared = pair_up(first.first, second.first)
        if shared.same_tokens:
            for one, other in _run_pairs(first.stories, second.stories):
                pairs.append((one.iloc[shared.stories[:, 0]], other.iloc[shared.stories[:, 1]]))
    if not pairs:
        for setting in settings:
            pairs += itertools.pairwise(setting.stories.values())
    pairs = [pair for pair in pairs if len(pair[0]) > 1]
    variances = [_ratio_variance(one, other) for one, other in pairs]
    if not variances or not np.isfinite(variances).all():
        return None
    fewest = min(len(one) for one, _ in pairs)
    return Variance(statistics.fmean(variances), fewest - 1, len(pairs))


def _run_pairs(
    first: dict[int, pd.DataFrame], second: dict[int, pd.DataFrame]
) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
    """The runs of two settings with the same seed, or where there are none, their first runs."""
    same = [(first[seed], second[seed]) for seed in first if seed in second]
    return same or [(next(iter(first.values())), next(iter(second.values())))]


def _ratio_variance(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Variance of what one story adds to the difference in loss, by linearisation.

    Of the ratio sum(nats gained) / sum(tokens): Cochran 1977, 2.9.
    """
    gained = second["nats"].to_numpy() - first["nats"].to_numpy()
    tokens = first["tokens"].to_numpy()
    residuals = gained - gained.sum() / tokens.sum() * tokens
    return float((residuals**2).sum() / (len(residuals) - 1) / tokens.mean() ** 2)


@dataclasses.dataclass(frozen=True)
class Goal:
    """A difference in nats per token that a comparison is to detect.

    level: corrected for so many comparisons (the first step of Holm's correction, so that it holds
    whatever the other comparisons show).
    """

    effect: float
    power: float = 0.8
    level: float = 0.05
    comparisons: int = 1


@cache
def _chi_square(freedom: int) -> tuple[np.ndarray, np.ndarray]:
    """Points x of chi-square / freedom, and the probability that each stands for.  (P,), (P,)"""
    width = 8 / math.sqrt(freedom)
    roots = np.exp(np.linspace(-width - 4 / freedom, min(width, 2.5), 1200))
    log_density = freedom * (np.log(roots) - roots**2 / 2)
    weights = np.exp(log_density - log_density.max())
    return roots**2, weights / weights.sum()


def power(goal: Goal, by_seeds: float, by_stories: float, seeds: int, stories: float) -> float:
    """Probability that the test claims a true difference of this size, in either direction.

    by_seeds, by_stories: V_seeds and V_stories.
    """
    from_seeds = by_seeds / seeds
    from_stories = by_stories / stories
    deviation = math.sqrt(from_seeds + from_stories)
    if deviation == 0:
        return 1.0
    points, weights = _chi_square(seeds - 1)
    level = goal.level / goal.comparisons
    seed_point = _point(level, seeds - 1)
    story_point = _point(level, text_freedom(stories))
    bound = np.sqrt(seed_point**2 * from_seeds * points + story_point**2 * from_stories)
    above = _CDF((goal.effect - bound) / deviation)
    below = _CDF((-goal.effect - bound) / deviation)
    return float(weights @ (above + below))


def seeds_for(
    goal: Goal, by_seeds: float, by_stories: float, stories: float = math.inf
) -> int | None:
    """The fewest seeds that have the power with so many stories, by doubling and bisection.

    None if no number of seeds has it.
    """
    low = 1
    high = 2
    while power(goal, by_seeds, by_stories, high, stories) < goal.power:
        low = high
        high *= 2
        if high > MOST_SEEDS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if power(goal, by_seeds, by_stories, middle, stories) < goal.power:
            low = middle
        else:
            high = middle
    return high


def describe_plan(noise: Noise, goal: Goal) -> list[str]:
    """Lines for the terminal: the noise with its own uncertainty, then the seeds that are needed.

    Raises InputError if no number of seeds has the power.
    """
    if seeds_for(goal, noise.of_difference, 0.0) is None:
        reason = f"needs more than {MOST_SEEDS:,} seeds; allowed: a larger difference"
        raise InputError(f"--effect {goal.effect:g} {reason}")
    lines = ["Noise of the runs so far, as standard deviations in nats per token:"]
    if noise.seeds:
        lines.append(f"  between seeds, of one run: {_shown(noise.seeds, 'settings')}")
    if noise.paired:
        lines.append(f"  of the difference, seed by seed: {_shown(noise.paired, 'pairs')}")
    if noise.stories:
        counts = f"pairs of runs: {noise.stories.samples}; {noise.stories.freedom + 1:,} stories"
        lines.append(f"  of a pair, between stories: {noise.stories.deviation:.3g} ({counts})")
    how_sure = f"power {100 * goal.power:g} %, level {100 * goal.level:g} %"
    if goal.comparisons > 1:
        how_sure += f" corrected for {goal.comparisons} comparisons"
    lines += ["", f"A difference of {goal.effect:g} nats per token ({how_sure}) needs per setting"]
    if noise.stories is None:
        lines.append(f"  {_needed(noise, goal, math.inf)}")
        lines.append("Stories are not counted: no two runs recorded losses of the same stories.")
    else:
        fewest = _needed(noise, goal, math.inf)
        for factor in _STORY_FACTORS:
            stories = noise.count * factor
            needed = _needed(noise, goal, stories)
            lines.append(f"  {needed} with {stories:,} evaluation stories")
            if needed == fewest:  # more stories save no seeds
                break
    return lines


def _needed(noise: Noise, goal: Goal, stories: float) -> str:
    """The number of seeds, and that for a spread at the upper end of its interval."""
    used = noise.paired or noise.seeds
    assert used is not None
    ratio = used.deviation_interval()[1] / used.deviation if used.value else 1.0
    by_stories = noise.stories.value if noise.stories else 0.0
    words = []
    for by_seeds in (noise.of_difference, noise.of_difference * ratio**2):
        seeds = seeds_for(goal, by_seeds, by_stories, stories)
        words.append(f"{seeds:,}" if seeds else f"more than {MOST_SEEDS:,}")
    return f"{words[0]} seeds (if their spread is at its upper end, {words[1]})"


def _shown(variance: Variance, samples: str) -> str:
    low, high = variance.deviation_interval()
    counts = f"{samples}: {variance.samples}, degrees of freedom: {variance.freedom}"
    return f"{variance.deviation:.3g} (95 %: {low:.3g} to {high:.3g}; {counts})"
