"""How many seeds and stories a comparison needs, from the noise of earlier runs.

Between two settings with n seeds each and m stories, the mean loss per token differs by chance with variance

    V = V_seeds / n + V_stories / m

V_seeds is the variance of the difference between two runs of one seed each. V_stories is the variance of what one story
adds to the difference of a pair of runs. A true difference is claimed with a given power if it exceeds
`significance.critical_value` by enough standard errors: the quantile of Student's t for this power. Planning from both
sources of chance follows Bouthillier et al. 2021 (arXiv:2103.03098).
"""

import bisect
import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence

import pandas as pd

from tinylm.evaluate.significance import (
    Error,
    critical_value,
    df_of_texts,
    shared_seeds,
)
from tinylm.experiments.results import TEXT_IDS, RevisionResult, by_setting, stories_of
from tinylm.run.interval import student_critical_value

MOST_SEEDS = 1000
_STORY_FACTORS = (1, 2, 5, 10, 100)  # multiples of the current number of stories


@dataclasses.dataclass(frozen=True)
class Noise:
    """The noise of earlier runs, in squared nats per token.

    seeds: V_seeds, with `df` degrees of freedom. stories: V_stories, measured on `count` stories.
    """

    seeds: float
    df: int
    stories: float
    count: int


def recorded_noise(results: Sequence[RevisionResult]) -> Noise | None:
    """Noise pooled over settings; None if none has two seeds, or neighbouring settings share no texts.

    V_seeds is that of differences seed by seed where neighbouring settings have the same seeds.
    """
    settings = [tables for setting in by_setting(results) if (tables := stories_of(setting))]
    losses = []
    for tables in settings:
        losses.append({seed: _loss(table) for seed, table in tables.items()})
    gains = []
    for one, other in itertools.pairwise(losses):
        gains.append([other[seed] - one[seed] for seed in shared_seeds(one, other)])
    paired = _pooled(gains)
    single = _pooled([list(by_seed.values()) for by_seed in losses])
    if single is None:
        return None
    firsts = [next(iter(tables.values())) for tables in settings]
    pairs = firsts if len(settings) > 1 else list(settings[0].values())  # one setting: its seeds
    stories = _story_variances(pairs)
    if not stories:
        return None
    variance, df = paired or (2 * single[0], single[1])
    return Noise(variance, df, statistics.fmean(stories), len(firsts[0]))


def _loss(table: pd.DataFrame) -> float:
    return float(table["nats"].sum() / table["tokens"].sum())


def _pooled(samples: Sequence[Sequence[float]]) -> tuple[float, int] | None:
    """The variance within samples and its degrees of freedom; None if none has two values."""
    several = [sample for sample in samples if len(sample) > 1]
    if not several:
        return None
    df = sum(len(sample) - 1 for sample in several)
    squares = sum(statistics.variance(sample) * (len(sample) - 1) for sample in several)
    return squares / df, df


def _story_variances(tables: Sequence[pd.DataFrame]) -> list[float]:
    """V_stories of each pair of neighbouring tables, in squared nats per token.

    Of the ratio sum(nats gained) / sum(tokens), by linearisation: Cochran 1977, 2.9.
    """
    variances = []
    for one, other in itertools.pairwise(tables):
        same_texts = [*TEXT_IDS, "tokens"]
        if len(one) > 1 and one[same_texts].equals(other[same_texts]):
            gained = other["nats"] - one["nats"]
            tokens = one["tokens"]
            residuals = gained - gained.sum() / tokens.sum() * tokens
            variances.append(float(residuals.var() / tokens.mean() ** 2))
    return variances


def detectable(noise: Noise, power: float, level: float, seeds: int, stories: int) -> float:
    """The smallest difference, in nats per token, that is claimed with this power (0.5 or more)."""
    by_seeds = Error(math.sqrt(noise.seeds / seeds), seeds - 1)
    by_stories = Error(math.sqrt(noise.stories / stories), df_of_texts(stories))
    surplus = student_critical_value(2 * (1 - power), seeds - 1)
    both = math.hypot(by_seeds.size, by_stories.size)
    return critical_value(level, [by_seeds, by_stories]) + surplus * both


def seeds_for(noise: Noise, effect: float, power: float, level: float, stories: int) -> int | None:
    """The fewest seeds that detect this effect with this many stories; None if no number does."""
    counts = range(2, MOST_SEEDS + 1)
    index = bisect.bisect_left(
        counts, -effect, key=lambda seeds: -detectable(noise, power, level, seeds, stories)
    )
    return counts[index] if index < len(counts) else None


def describe_plan(noise: Noise, effect: float, power: float, level: float) -> list[str]:
    """Lines for the terminal: the noise, then the seeds that are needed."""
    lines = [
        "Noise of the runs so far (standard deviation of a difference, in nats per token):",
        f"  between seeds: {math.sqrt(noise.seeds):.3g} (degrees of freedom: {noise.df})",
        f"  between stories: {math.sqrt(noise.stories):.3g} ({noise.count:,} stories)",
        "",
        f"To detect a difference of {effect:g} nats per token (power {100 * power:g} %, level "
        f"{100 * level:.2g} %), each setting needs",
    ]
    for factor in _STORY_FACTORS:
        stories = noise.count * factor
        seeds = seeds_for(noise, effect, power, level, stories)
        needed = f"{seeds:,}" if seeds else f"more than {MOST_SEEDS:,}"
        lines.append(f"  {needed} seeds with {stories:,} evaluation stories")
    return lines
