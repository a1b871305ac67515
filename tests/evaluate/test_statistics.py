"""The statistics against normal theory, slow loops, and the tables of their papers."""

import numpy as np
import pytest

from tinylm.evaluate.differences import (
    SeedError,
    critical_value,
    difference_of,
    paired_interval,
    seed_error,
    shared_seeds,
)
from tinylm.evaluate.statistics import (
    HIGHER,
    LOWER,
    NOT_SHOWN,
    Effect,
    bootstrap_interval,
    bootstrap_intervals,
    claims,
    effect_between,
    holm,
    mean,
    pooled_perplexity,
    pooled_ratio,
    student_critical_value,
    student_p_value,
    wilson,
)


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
    for column in (0, 2):
        alone = bootstrap_interval(values[:, column], mean, 1700, seed=3)
        assert (lows[column], highs[column]) == pytest.approx(alone)


def test_nothing_to_resample_is_refused():
    for values, resamples in (([], 10), ([1.0], 0)):
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
    ("level", "df", "t"),
    [(0.05, 1, 12.706), (0.01, 3, 5.8409), (0.001, 1, 636.62), (0.1, 8, 1.85955),
     (0.05, 17, 2.1098), (0.05, 1000, 1.9623)],
)  # fmt: skip
def test_critical_and_p_values_of_students_t_are_those_of_the_tables(level, df, t):
    assert student_critical_value(level, df) == pytest.approx(t, rel=2e-5)
    assert student_p_value(-t, df) == pytest.approx(level, rel=2e-4)
    assert student_p_value(0.0, df) == 1.0
    assert student_p_value(float("inf"), df) == 0.0


def test_holms_correction_is_that_of_his_paper():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


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
    assert seed_error(first, {9: 5.0}) is None  # a single run has no variance
    assert seed_error(first, {1: float("nan"), 2: 1.0}) is None


def test_p_is_the_level_at_which_a_difference_just_counts():
    rng = np.random.default_rng(1)
    tokens = rng.integers(50, 150, 200)
    hardness = rng.normal(2.0, 0.5, 200)  # of the same stories in both runs
    sides = []
    for shift in (0.0, -0.05):
        by_seed = {}
        for seed in (1, 2, 3):
            nats = tokens * (hardness + shift + rng.normal(0, 0.01) + rng.normal(0, 0.02, 200))
            by_seed[seed] = np.stack([nats, tokens], axis=1)
        sides.append(by_seed)
    difference = difference_of(*sides, pooled_ratio)
    reached = critical_value(difference.p, difference.seeds, difference.error, difference.count)
    assert reached == pytest.approx(abs(difference.value), rel=1e-3)
    holds_zero = difference.low <= 0 <= difference.high
    assert holds_zero == (difference.p > 0.05)


def test_the_error_over_few_texts_has_bessels_correction():
    gains = np.array([-1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
    first = {seed: np.zeros((6, 1)) for seed in (1, 2)}
    second = dict.fromkeys((1, 2), gains[:, None])
    difference = difference_of(first, second, mean)
    assert difference.error == pytest.approx(gains.std(ddof=1) / 6**0.5, rel=0.05)
    assert difference_of(first, {1: first[1] + 1, 2: first[2] + 1}, mean).p == 1 / 32


def effect(value, error=1.0, count=1000, bound=None):
    return Effect(value, value - 1.96 * error, value + 1.96 * error, count)


def test_a_claim_needs_a_p_that_the_number_of_comparisons_allows():
    alone = claims({"a": effect(-2.5)})["a"]
    assert (alone.verdict, alone.comparisons) == (LOWER, 1)
    assert alone.p == pytest.approx(0.0141, abs=2e-4)  # t of 100 degrees of freedom
    among = claims({"a": effect(-2.5), **{name: effect(0.1) for name in "bcde"}})
    assert among["a"].verdict == NOT_SHOWN
    assert among["a"].p == pytest.approx(5 * alone.p)
    assert claims({"a": effect(4.0), "b": effect(0.1)})["a"].verdict == HIGHER


def test_few_texts_need_more_and_fewer_than_five_show_nothing():
    assert claims({"a": effect(2.5, count=6)})["a"].verdict == NOT_SHOWN
    assert claims({"a": effect(9.0, count=6)})["a"].verdict == HIGHER
    assert claims({"a": effect(9.0, 0.0, count=6)})["a"].p == 1 / 32  # that six have one sign
    for hopeless in (effect(99.0, count=4), effect(float("inf")), effect(float("nan"))):
        claim = claims({"a": hopeless})["a"]
        assert (claim.verdict, claim.p) == (NOT_SHOWN, None)
        assert claim.reason


def test_effects_of_one_hypothesis_are_claimed_together_or_not_at_all():
    effects = {"a": effect(5.0), "b": effect(1.0), "c": effect(5.0)}
    together = claims(effects, {"a": "x", "b": "x"})
    verdicts = {name: claim.verdict for name, claim in together.items()}
    assert verdicts == {"a": NOT_SHOWN, "b": NOT_SHOWN, "c": HIGHER}
    assert together["a"].comparisons == 2
    unknown = claims({"a": effect(5.0), "b": effect(float("nan"))}, {"a": "x", "b": "x"})
    assert unknown["a"].verdict == NOT_SHOWN


def test_the_interval_of_a_difference_is_that_of_independent_values():
    one = {"value": 5.0, "low": 2.0, "high": 6.0}
    other = {"value": 1.0, "low": -3.0, "high": 5.0}
    between = effect_between(one, other, 10)
    assert (between.value, between.low, between.high) == (4.0, -1.0, pytest.approx(4 + 17**0.5))


def test_at_most_5_of_100_pages_of_small_samples_claim_anything():
    rng = np.random.default_rng(2)
    false = 0
    for samples in rng.standard_normal((1000, 12, 12)):  # pages, comparisons, texts
        # errors as a bootstrap's: without Bessel's correction
        effects = {i: effect(x.mean(), x.std() / 12**0.5, 12) for i, x in enumerate(samples)}
        false += any(claim.verdict != NOT_SHOWN for claim in claims(effects).values())
    assert 20 < false <= 65
