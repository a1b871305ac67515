"""How many seeds and stories a comparison needs, from the noise of earlier runs.

Between two settings with n seeds each and m stories, the mean loss per token differs by chance with variance

    V = V_seeds / n + V_stories / m

V_seeds is that of the difference between two runs of one seed each, V_stories that of what one story adds to the
difference of a pair of runs. The power is the share of simulated comparisons in which `differences.critical_value` is
exceeded; V_stories is taken as known, since there are many stories. Planning from both sources of chance follows
Bouthillier et al. 2021 (arXiv:2103.03098).
"""

import bisect
import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence
from functools import cache

import numpy as np

from tinylm.base.config import InputError
from tinylm.compare.runs import Run, Setting, match, settings_of
from tinylm.evaluate.differences import shared_seeds
from tinylm.evaluate.statistics import df_of_texts, student_critical_value

MOST_SEEDS = 1000
SIMULATED = 20_000  # comparisons; the power is then known to about 0.01
_STORY_FACTORS = (1, 2, 5, 10, 100)  # multiples of the current number of stories
_point = cache(student_critical_value)


@dataclasses.dataclass(frozen=True)
class Noise:
    """The noise of earlier runs, in squared nats per token.

    seeds: V_seeds, with `df` degrees of freedom. paired: whether it comes from differences of
    two settings, seed by seed; if not, from two independent runs. stories: V_stories, None where
    it was not recorded. count: the stories.
    """

    seeds: float
    df: int
    paired: bool
    stories: float | None
    count: int


def recorded_noise(runs: Sequence[Run]) -> Noise | None:
    """The noise of these runs, pooled over their settings; None without a spread between seeds."""
    settings = settings_of(runs)
    losses = [setting.metric("nats_per_token") for setting in settings]
    differences = []
    for one, other in itertools.pairwise(losses):
        seeds = shared_seeds(one, other)
        differences.append([other[seed] - one[seed] for seed in seeds])
    paired = _pooled(differences)
    single = _pooled([list(by_seed.values()) for by_seed in losses])
    counts = [len(run.stories) for run in runs if run.stories is not None]
    count = max(counts, default=0)
    stories = _story_variance(settings)
    if paired is not None:
        return Noise(*paired, True, stories, count)
    if single is not None:
        variance, df = single
        return Noise(2 * variance, df, False, stories, count)
    return None


def _pooled(samples: Sequence[Sequence[float]]) -> tuple[float, int] | None:
    """The variance within samples and its degrees of freedom; None if none has two values."""
    several = [sample for sample in samples if len(sample) > 1]
    if not several:
        return None
    df = sum(len(sample) - 1 for sample in several)
    squares = 0.0
    for sample in several:
        squares += statistics.variance(sample) * (len(sample) - 1)
    return squares / df, df


def _story_variance(settings: Sequence[Setting]) -> float | None:
    """V_stories, over pairs of neighbouring settings, else over pairs of seeds.

    Of the ratio sum(nats gained) / sum(tokens), by linearisation: Cochran 1977, 2.9.
    """
    pairs = []
    for first, second in itertools.pairwise(settings):
        if match(first.first, second.first).tokens:
            one = next(iter(first.stories.values()))
            other = next(iter(second.stories.values()))
            pairs.append((one, other))
    if not pairs:
        for setting in settings:
            pairs += itertools.pairwise(setting.stories.values())
    variances = []
    for one, other in pairs:
        gained = other["nats"].to_numpy() - one["nats"].to_numpy()
        tokens = one["tokens"].to_numpy()
        residuals = gained - gained.sum() / tokens.sum() * tokens
        if len(residuals) > 1:
            variances.append(residuals.var(ddof=1) / tokens.mean() ** 2)
    if not variances or not np.isfinite(variances).all():
        return None
    return float(np.mean(variances))


@dataclasses.dataclass(frozen=True)
class Goal:
    """A difference in nats per token that a comparison should detect.

    level: corrected for the number of comparisons, by the first step of Holm's correction. So it
    holds for any result of the other comparisons.
    """

    effect: float
    power: float = 0.8
    level: float = 0.05
    comparisons: int = 1


def power(goal: Goal, by_seeds: float, by_stories: float, seeds: int, stories: float) -> float:
    """Share of simulated comparisons that claim a true difference of this size.

    by_seeds, by_stories: V_seeds and V_stories.
    """
    from_seeds = by_seeds / seeds
    from_stories = by_stories / stories
    rng = np.random.default_rng(0)  # the same draws for every number of seeds
    errors = rng.standard_normal(SIMULATED) * math.sqrt(from_seeds + from_stories)
    estimates = rng.chisquare(seeds - 1, SIMULATED) / (seeds - 1) * from_seeds
    level = goal.level / goal.comparisons
    seed_point = _point(level, seeds - 1)
    story_point = _point(level, df_of_texts(stories))
    bound = np.sqrt(seed_point**2 * estimates + story_point**2 * from_stories)
    return float((np.abs(goal.effect + errors) > bound).mean())


def seeds_for(
    goal: Goal, by_seeds: float, by_stories: float, stories: float = math.inf
) -> int | None:
    """The fewest seeds that reach the power with this many stories; None if no number does."""
    counts = range(2, MOST_SEEDS + 1)
    index = bisect.bisect_left(
        counts, goal.power, key=lambda seeds: power(goal, by_seeds, by_stories, seeds, stories)
    )
    return counts[index] if index < len(counts) else None


def describe_plan(noise: Noise, goal: Goal) -> list[str]:
    """Lines for the terminal: the noise, then the seeds that are needed.

    Raises InputError if no number of seeds has the power.
    """
    fewest = seeds_for(goal, noise.seeds, 0.0)
    if fewest is None:
        reason = f"needs more than {MOST_SEEDS:,} seeds; allowed: a larger difference"
        raise InputError(f"--effect {goal.effect:g} {reason}")
    source = "seed by seed" if noise.paired else "of two runs with other seeds"
    lines = [
        "Noise of the runs so far, as standard deviations in nats per token:",
        f"  of a difference, {source}: {math.sqrt(noise.seeds):.3g} "
        f"(degrees of freedom: {noise.df})",
    ]
    if noise.stories is not None:
        deviation = math.sqrt(noise.stories)
        lines.append(
            f"  of a difference, between stories: {deviation:.3g} ({noise.count:,} stories)"
        )
    how_sure = f"power {100 * goal.power:g} %, level {100 * goal.level:g} %"
    if goal.comparisons > 1:
        how_sure += f" corrected for {goal.comparisons} comparisons"
    lines += ["", f"A difference of {goal.effect:g} nats per token ({how_sure}) needs per setting"]
    if noise.stories is None:
        lines.append(f"  {fewest:,} seeds")
        lines.append("Stories are not counted: no two runs recorded losses of the same stories.")
        return lines
    for factor in _STORY_FACTORS:
        stories = noise.count * factor
        seeds = seeds_for(goal, noise.seeds, noise.stories, stories)
        needed = f"{seeds:,}" if seeds else f"more than {MOST_SEEDS:,}"
        lines.append(f"  {needed} seeds with {stories:,} evaluation stories")
        if seeds == fewest:  # more stories save no seeds
            break
    return lines
