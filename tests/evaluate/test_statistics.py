"""The statistics against normal theory, slow loops, and the tables of their papers."""

import numpy as np
import pytest

from tinylm.evaluate.statistics import (
    bootstrap_interval,
    bootstrap_intervals,
    holm,
    mean,
    paired_interval,
    pooled_perplexity,
    student_point,
    student_tail,
    wilson,
)


def test_bootstrap_of_a_mean_matches_the_normal_interval():
    values = np.random.default_rng(5).normal(3.0, 2.0, 1001)
    low, high = bootstrap_interval(values, mean, 3000, seed=1)
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - half, abs=0.08 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.08 * half)


def test_bootstrap_matches_a_slow_loop_over_resamples():
    """Pooled perplexity of ragged stories; the loop draws its own rows: only intervals agree."""
    rng = np.random.default_rng(7)
    tokens = rng.integers(3, 300, 97)
    pairs = np.column_stack([tokens * rng.normal(1.5, 0.3, 97), tokens])
    slow = []
    for _ in range(4000):
        drawn = pairs[rng.integers(97, size=97)].sum(axis=0)
        slow.append(np.exp(drawn[0] / drawn[1]))
    interval = bootstrap_interval(pairs, pooled_perplexity, 4000, seed=2)
    assert interval == pytest.approx(np.quantile(slow, [0.025, 0.975]), rel=0.01)


def test_several_statistics_share_the_resamples_of_every_block():
    values = np.random.default_rng(5).random((1201, 3))  # 1700 resamples are three blocks
    lows, highs = bootstrap_intervals(values, lambda means: means, 1700, seed=3)
    for column in range(3):
        alone = bootstrap_interval(values[:, column], mean, 1700, seed=3)
        assert (lows[column], highs[column]) == pytest.approx(alone)


@pytest.mark.parametrize(("values", "resamples"), [([], 10), ([1.0], 0)])
def test_nothing_to_resample_is_refused(values, resamples):
    with pytest.raises(ValueError, match="allowed"):
        bootstrap_interval(np.array(values), mean, resamples, seed=1)


def test_a_paired_interval_is_that_of_the_differences():
    rng = np.random.default_rng(3)
    first, second = rng.normal(0, 1, (2, 300, 1))
    difference = (second - first)[:, 0]
    half = 1.96 * difference.std() / np.sqrt(300)
    normal = [difference.mean() - half, difference.mean() + half]
    interval = paired_interval(first, second, mean, 4000, seed=1)
    assert interval == pytest.approx(normal, abs=0.1 * half)


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [(0, 50, 0.0, 0.0713), (50, 50, 0.9287, 1.0), (5, 10, 0.2366, 0.7634), (1, 10, 0.0179, 0.4042)],
)
def test_wilsons_interval(count, of, low, high):
    """Against the values of Newcombe (1998), method 3, and of the formula's limits."""
    share = wilson(count, of)
    values = (share["value"], share["low"], share["high"])
    assert values == pytest.approx((count / of, low, high), abs=1e-4)


@pytest.mark.parametrize(
    ("level", "freedom", "t"),
    [(0.05, 1, 12.706), (0.01, 3, 5.8409), (0.001, 1, 636.62), (0.1, 8, 1.85955),
     (0.05, 17, 2.1098), (0.05, 1000, 1.9623)],
)  # fmt: skip
def test_points_and_tails_of_students_t_are_those_of_the_tables(level, freedom, t):
    assert student_point(level, freedom) == pytest.approx(t, rel=2e-5)
    assert student_tail(-t, freedom) == pytest.approx(level, rel=2e-4)
    assert student_tail(0.0, freedom) == 1.0
    assert student_tail(float("inf"), freedom) == 0.0


def test_holms_correction_is_that_of_his_paper():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
