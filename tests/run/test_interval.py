"""Intervals and Student's t against the tables of their papers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinylm.run.interval import Interval, student_critical_value, student_p_value, wilson


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [(0, 50, 0.0, 0.0713), (50, 50, 0.9287, 1.0), (5, 10, 0.2366, 0.7634), (1, 10, 0.0179, 0.4042)],
)
def test_wilsons_interval(count, of, low, high):
    """Against the values of Newcombe (1998), method 3, and of the formula's limits."""
    share = wilson(count, of)
    values = (share.value, share.low, share.high)
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


ENDS = st.none() | st.sampled_from([-1.0, 0.0, 1.0]) | st.floats(-9, 9)


@given(low=ENDS, high=ENDS)
def test_an_interval_is_on_one_side_of_zero_only_if_both_its_ends_are(low, high):
    sides = {None if end is None else (end > 0) - (end < 0) for end in (low, high)}
    expected = sides.pop() if len(sides) == 1 else 0
    assert Interval(1.0, *sorted_ends(low, high)).side == (expected or 0)


def sorted_ends(low, high):
    """In the order of an interval, where both are there."""
    return (low, high) if None in (low, high) else tuple(sorted((low, high)))
