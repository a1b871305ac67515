"""A number with its 95 % interval, Wilson's interval of a share, and Student's t."""

import dataclasses
import math

Z95 = 1.96  # half-width of a 95 % normal interval, in standard deviations
MIN_TEXTS = 5  # with fewer texts an interval is too narrow, so nothing is claimed


@dataclasses.dataclass(frozen=True)
class Interval:
    """A value and the ends of its 95 % interval; None where the number is not finite.

    stories: the number of different stories behind it; None where it is not recorded.
    """

    value: float | None
    low: float | None
    high: float | None
    stories: int | None = None

    @property
    def side(self) -> int:
        """-1 if the whole interval is below 0, 1 if it is above, 0 if it contains 0 or lacks an end."""
        if self.low is None or self.high is None:
            return 0
        return (self.low > 0) - (self.high < 0)


def wilson(count: float, of: int) -> Interval | None:
    """The share count / of with its 95 % score interval (Wilson 1927); None if `of` is 0.

    Unlike the normal interval, it is also valid for shares of 0 and 1.
    """
    if not of:
        return None
    share = count / of
    square = Z95**2 / of
    centre = (share + square / 2) / (1 + square)
    variance = share * (1 - share) / of + square / (4 * of)
    half = Z95 * math.sqrt(variance) / (1 + square)
    low = max(centre - half, 0.0)
    high = min(centre + half, 1.0)
    return Interval(share, low, high)


def student_p_value(t: float, df: int) -> float:
    """Probability that Student's t with `df` degrees of freedom is at least |t| away from 0.

    Two-sided. The finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4, exact to about 1e-15.
    """
    angle = math.atan(abs(t) / math.sqrt(df))
    odd = df % 2
    square = math.cos(angle) ** 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for k in range(2 + odd, df + 1, 2):
        total += term
        term *= square * (k - 1) / k
    inside = math.sin(angle) * total
    if odd:
        inside = 2 / math.pi * (angle + inside)
    return max(1 - inside, 0.0)


def student_critical_value(level: float, df: int) -> float:
    """The t > 0 whose `student_p_value` is `level`, by bisection; 12.706 for level 0.05, df 1."""
    low = 0.0
    high = 1.0
    while student_p_value(high, df) > level:
        low = high
        high *= 2
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        if student_p_value(middle, df) > level:
            low = middle
        else:
            high = middle
    return high
