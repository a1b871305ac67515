"""The statistics against normal theory, slow loops, and the tables of their papers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinylm.evaluate.intervals import (
    bootstrap_interval,
    mean,
    pooled_perplexity,
    pooled_ratio,
)
from tinylm.evaluate.significance import (
    Error,
    claims,
    critical_value,
    difference_of,
    difference_over_seeds,
    error_over_texts,
    holm,
    p_of_interval,
    p_value,
    seed_error,
)
from tinylm.run.interval import Z95, student_critical_value, student_p_value


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


def test_an_interval_over_texts_is_that_of_the_differences():
    rng = np.random.default_rng(3)
    first, second = rng.normal(0, 1, (2, 300, 1))
    gains = (second - first)[:, 0]
    half = 1.96 * gains.std() / np.sqrt(300)
    difference = difference_of({1: first}, {1: second}, mean)
    assert difference.value == pytest.approx(gains.mean())
    expected = pytest.approx([gains.mean() - half, gains.mean() + half], abs=0.1 * half)
    assert [difference.low, difference.high] == expected
    assert np.isnan(difference.p)  # the spread over seeds is unknown


def test_holms_correction_is_that_of_his_paper():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]).tolist() == [1.0, 1.0]
    assert holm([]).tolist() == []
    assert holm([0.02, np.nan, 0.9]).tolist() == pytest.approx([0.04, np.nan, 0.9], nan_ok=True)


LOSSES = st.dictionaries(st.integers(1, 5), st.floats(-9, 9), min_size=1)


@given(first=LOSSES, second=LOSSES)
def test_a_difference_and_its_error_are_over_the_same_seeds(first, second):
    """Seed by seed where one side has all seeds of the other; else the variances of both add up."""
    shared = first.keys() & second.keys()
    is_paired = len(shared) > 1 and shared in (first.keys(), second.keys())
    difference, error = difference_over_seeds(first, second)
    if is_paired:
        gains = [second[seed] - first[seed] for seed in shared]
        assert difference == pytest.approx(np.mean(gains))
        size = np.std(gains, ddof=1) / len(gains) ** 0.5
        assert error == Error(pytest.approx(size), len(gains) - 1, paired=True)
        return
    one, other = ([*side.values()] for side in (first, second))
    assert difference == pytest.approx(np.mean(other) - np.mean(one))
    fewest = min(len(one), len(other))
    if fewest == 1:  # a single run has no variance
        assert error is None
        return
    size = (np.var(one, ddof=1) / len(one) + np.var(other, ddof=1) / len(other)) ** 0.5
    assert error == Error(pytest.approx(size), fewest - 1)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_diverged_seed_gives_no_error(loss):
    assert seed_error({1: 1.0, 2: 2.0}, {1: loss, 2: 1.0}) is None


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
    # where the critical value of level 0.05 is half the interval, and p the level that value reaches
    half = (difference.high - difference.low) / 2
    over_texts = np.sqrt(half**2 - critical_value(0.05, [difference.seeds]) ** 2)
    errors = [difference.seeds, Error(over_texts / student_critical_value(0.05, 100), 100)]
    reached = critical_value(difference.p, errors)
    assert reached == pytest.approx(abs(difference.value), rel=1e-3)
    holds_zero = difference.low <= 0 <= difference.high
    assert holds_zero == (difference.p > 0.05)


def test_seeds_of_only_one_side_are_ignored():
    rng = np.random.default_rng(3)
    first, second = ({seed: rng.normal(0, 1, (9, 1)) for seed in (1, 2, 3)} for _ in range(2))
    two = {seed: first[seed] for seed in (1, 2)}
    of_two = {seed: second[seed] for seed in (1, 2)}
    expected = difference_of(two, of_two, mean)
    assert difference_of(first, of_two, mean) == difference_of(two, second, mean) == expected


@pytest.mark.parametrize("errors", [[Error(2.0, 5)], [Error(2.0, 5), Error(0.0, 100)]])
def test_with_one_source_of_chance_p_is_that_of_students_t(errors):
    for value in (0.5, 4.0, -7.0):
        assert p_value(value, errors) == pytest.approx(student_p_value(value / 2, 5), rel=1e-3)
    assert p_value(0.0, errors) == 1.0


@pytest.mark.parametrize("texts", [5, 8, 30])
def test_p_over_few_texts_is_that_of_the_t_test(texts):
    """From the interval of an endless bootstrap, whose variance divides by n instead of n - 1."""
    values = np.random.default_rng(texts).normal(0.7, 1.0, texts)
    error = values.std() / np.sqrt(texts)
    interval = values.mean() - Z95 * error, values.mean() + Z95 * error
    t = values.mean() / (values.std(ddof=1) / np.sqrt(texts))
    expected = max(student_p_value(t, texts - 1), 2.0 ** (1 - texts))
    assert p_of_interval(values.mean(), *interval, texts) == pytest.approx(expected)
    assert error_over_texts(Z95 * error, texts).size == pytest.approx(
        values.std(ddof=1) / np.sqrt(texts)
    )


def test_few_texts_give_no_smaller_p_than_the_chance_of_one_sign():
    assert p_of_interval(9.0, 9.0, 9.0, 6) == 1 / 32
    first = {seed: np.zeros((6, 1)) for seed in (1, 2)}
    assert difference_of(first, {1: first[1] + 1, 2: first[2] + 1}, mean).p == 1 / 32


def test_no_p_without_five_texts_or_a_finite_value():
    for value, texts in ((99.0, 4), (float("inf"), 100), (float("nan"), 100)):
        assert np.isnan(p_of_interval(value, value - 1, value + 1, texts))
    assert not claims([np.nan, np.nan]).any()


def test_a_claim_needs_a_p_that_the_number_of_comparisons_allows():
    assert claims([0.04]).tolist() == [True]
    assert claims([0.04, 0.5, 0.9]).tolist() == [False, False, False]
    assert claims([0.01, 0.5, 0.9]).tolist() == [True, False, False]
    assert claims([0.01, np.nan, np.nan]).tolist() == [True, False, False]
