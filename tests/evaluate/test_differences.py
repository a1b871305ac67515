"""Differences between two settings: the interval over texts, the error of seeds, and p."""

import numpy as np
import pytest

from tinylm.evaluate.statistics import (
    SeedError,
    critical_value,
    difference_of,
    pooled_ratio,
    seed_error,
    shared_seeds,
)


def test_the_error_of_seeds_is_paired_where_the_seeds_are_the_same():
    first = {1: 2.0, 2: 3.0, 3: 4.0}
    second = {1: 2.5, 2: 3.4, 3: 4.6}
    deviation = np.array([0.5, 0.4, 0.6]).std(ddof=1)
    assert seed_error(first, second) == SeedError(pytest.approx(deviation / 3**0.5), 2, True)
    assert shared_seeds(first, {2: 0.0, 3: 0.0}) == [2, 3]
    assert shared_seeds(first, {3: 0.0, 4: 0.0}) == shared_seeds({1: 0.0}, {1: 0.0}) == []


def test_the_variances_of_different_seeds_add_up():
    first = {1: 2.0, 2: 3.0, 3: 4.0}
    others = {11: 2.5, 12: 3.4, 13: 4.6}
    variance = (np.var([2, 3, 4], ddof=1) + np.var([2.5, 3.4, 4.6], ddof=1)) / 3
    assert seed_error(first, others) == SeedError(pytest.approx(variance**0.5), 2, False)
    # a single run is taken to vary as the others
    assert seed_error(first, {9: 5.0}) == SeedError(pytest.approx((1 / 3 + 1) ** 0.5), 2, False)
    assert seed_error({1: 2.0}, {1: 3.0}) is None
    assert seed_error(first, {1: float("nan")}) is None


@pytest.mark.parametrize(("seeds", "share"), [(2, 0.5), (3, 0.1), (5, 0.4)])
def test_the_level_holds_whatever_the_share_of_seeds(seeds, share):
    rng = np.random.default_rng(5)
    draws = 4000
    level = 0.05
    variances = share * rng.chisquare(seeds - 1, draws) / (seeds - 1)
    values = np.abs(rng.standard_normal(draws))
    claims = 0
    for value, variance in zip(values, variances, strict=True):
        error = SeedError(variance**0.5, seeds - 1, paired=True)
        claims += value > critical_value(level, error, (1 - share) ** 0.5, 1000)
    assert 0.1 * level * draws < claims <= level * draws


def test_p_is_the_level_at_which_a_difference_just_counts():
    rng = np.random.default_rng(1)
    tokens = rng.integers(50, 150, 200)
    hardness = rng.normal(2.0, 0.5, 200)  # of the same stories in both runs
    runs = []
    for shift in (0.0, -0.05):
        nats = tokens * (hardness + shift + rng.normal(0, 0.02, 200))
        runs.append({1: np.stack([nats, tokens], axis=1)})
    recorded = SeedError(0.01, 2, paired=False)
    difference = difference_of(*runs, pooled_ratio, recorded=recorded)
    reached = critical_value(difference.p, difference.seeds, difference.error, difference.count)
    assert reached == pytest.approx(abs(difference.value), rel=1e-3)
    holds_zero = difference.low <= 0 <= difference.high
    assert holds_zero == (difference.p > 0.05)
