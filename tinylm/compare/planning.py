"""How many seeds and stories a comparison needs, from the noise of earlier runs.

Between two settings with n seeds each and m stories, the mean loss per token differs by chance with variance

    V = V_seeds / n + V_stories / m

V_seeds is the variance of the difference between two runs of one seed each. V_stories is the variance of what one story
adds to the difference of a pair of runs. A true difference is claimed with a given power if it exceeds
`differences.critical_value` by enough standard errors: the quantile of Student's t for this power. Planning from both
sources of chance follows Bouthillier et al. 2021 (arXiv:2103.03098).
"""

import bisect
import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence

import numpy as np

from tinylm.compare.runs import STORY_IDS, RevisionResult, Setting, settings_of
from tinylm.evaluate.differences import SeedError, critical_value, shared_seeds
from tinylm.evaluate.statistics import student_critical_value

MOST_SEEDS = 1000
_STORY_FACTORS = (1, 2, 5, 10, 100)  # multiples of the current number of stories


@dataclasses.dataclass(frozen=True)
class Noise:
    """The noise of earlier runs, in squared nats per token.

    seeds: V_seeds, with `df` degrees of freedom. paired: whether V_seeds is of differences between
    two settings, seed by seed; if not, between two independent runs. stories: V_stories, measured
    on `count` stories.
    """

    seeds: float
    df: int
    paired: bool
    stories: float
    count: int


def recorded_noise(runs: Sequence[RevisionResult]) -> Noise | None:
    """The noise of these runs, pooled over their settings; None if no setting has two seeds."""
    settings = [setting for setting in settings_of(runs) if setting.stories]
    losses = []
    for setting in settings:
        tables = setting.stories.items()
        losses.append({seed: table["nats"].sum() / table["tokens"].sum() for seed, table in tables})
    differences = []
    for one, other in itertools.pairwise(losses):
        seeds = shared_seeds(one, other)
        differences.append([other[seed] - one[seed] for seed in seeds])
    paired = _pooled(differences)
    single = _pooled([list(by_seed.values()) for by_seed in losses])
    stories = _story_variance(settings)
    if single is None or stories is None:
        return None
    variance, df = paired or (2 * single[0], single[1])
    count = len(next(iter(settings[0].stories.values())))
    return Noise(variance, df, paired is not None, stories, count)


def _pooled(samples: Sequence[Sequence[float]]) -> tuple[float, int] | None:
    """The variance within samples and its degrees of freedom; None if none has two values."""
    several = [sample for sample in samples if len(sample) > 1]
    if not several:
        return None
    df = sum(len(sample) - 1 for sample in several)
    squares = sum(statistics.variance(sample) * (len(sample) - 1) for sample in several)
    return squares / df, df


def _story_variance(settings: Sequence[Setting]) -> float | None:
    """V_stories, the mean over neighbouring settings, or over neighbouring seeds of the only one.

    Of the ratio sum(nats gained) / sum(tokens), by linearisation: Cochran 1977, 2.9.
    """
    tables = [next(iter(setting.stories.values())) for setting in settings]
    if len(settings) == 1:
        tables = list(settings[0].stories.values())
    variances = []
    for one, other in itertools.pairwise(tables):
        same_texts = [*STORY_IDS, "tokens"]
        if len(one) > 1 and one[same_texts].equals(other[same_texts]):
            gained = other["nats"] - one["nats"]
            tokens = one["tokens"]
            residuals = gained - gained.sum() / tokens.sum() * tokens
            variances.append(residuals.var() / tokens.mean() ** 2)
    return float(np.mean(variances)) if variances else None


def detectable(noise: Noise, power: float, level: float, seeds: int, stories: int) -> float:
    """The smallest difference, in nats per token, that is claimed with this power (0.5 or more)."""
    by_seeds = SeedError(math.sqrt(noise.seeds / seeds), seeds - 1, noise.paired)
    by_stories = math.sqrt(noise.stories / stories)
    error = math.hypot(by_seeds.error, by_stories)
    surplus = student_critical_value(2 * (1 - power), seeds - 1) * error
    return critical_value(level, by_seeds, by_stories, stories) + surplus


def seeds_for(noise: Noise, effect: float, power: float, level: float, stories: int) -> int | None:
    """The fewest seeds that detect this effect with this many stories; None if no number does."""
    counts = range(2, MOST_SEEDS + 1)
    index = bisect.bisect_left(
        counts, -effect, key=lambda seeds: -detectable(noise, power, level, seeds, stories)
    )
    return counts[index] if index < len(counts) else None


def describe_plan(noise: Noise, effect: float, power: float, level: float) -> list[str]:
    """Lines for the terminal: the noise, then the seeds that are needed."""
    source = "seed by seed" if noise.paired else "of two runs with different seeds"
    by_seeds = math.sqrt(noise.seeds)
    by_stories = math.sqrt(noise.stories)
    lines = [
        "Noise of the runs so far, as standard deviations in nats per token:",
        f"  of a difference, {source}: {by_seeds:.3g} (degrees of freedom: {noise.df})",
        f"  of a difference, between stories: {by_stories:.3g} ({noise.count:,} stories)",
        "",
        f"A difference of {effect:g} nats per token (power {100 * power:g} %, level "
        f"{100 * level:.2g} %) needs per setting",
    ]
    for factor in _STORY_FACTORS:
        stories = noise.count * factor
        seeds = seeds_for(noise, effect, power, level, stories)
        needed = f"{seeds:,}" if seeds else f"more than {MOST_SEEDS:,}"
        lines.append(f"  {needed} seeds with {stories:,} evaluation stories")
    return lines
