"""Intervals and tests: bootstrap, Wilson, Student's t, Holm, differences, and what may be claimed.

The project's one statistics module. It needs numpy only, so that reports and comparisons start without torch.
"""

import dataclasses
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from tinylm.evaluate.differences import Difference

K = TypeVar("K", bound=Hashable)

Statistic = Callable[[np.ndarray], np.ndarray]  # column means (..., K) -> (...)

Z95 = 1.96  # standard deviations from the centre to either end of a 95 % normal interval
LEVEL = 0.95  # of the intervals of differences
ALPHA = 1 - LEVEL  # chance that a comparison of any number of runs claims anything false
MIN_TEXTS = 5  # with fewer texts, prompts or trials an interval is too narrow
HIGHER, LOWER, NOT_SHOWN = "higher", "lower", "not shown"
NO_CLAIM = "no difference claimed"
ONE_SEED = "a side has one seed"
_DRAWS_AT_ONCE = 1_000_000  # a block of resamples then uses some tens of MiB


def mean(means: np.ndarray) -> np.ndarray:
    """The mean of one value per sample.  (..., K) -> (...)"""
    return means[..., 0]


def pooled_ratio(means: np.ndarray) -> np.ndarray:
    """All of column 0 / all of column 1.  (..., 2) -> (...)"""
    return means[..., 0] / means[..., 1]


def ratios_to_last(means: np.ndarray) -> np.ndarray:
    """All of each column / all of the last one, 0 if that is 0.  (R, M + 1) -> (R, M)"""
    return means[:, :-1] / np.maximum(means[:, -1:], 1e-12)


def pooled_perplexity(means: np.ndarray) -> np.ndarray:
    """exp(all nats / all tokens) of samples given as (nats, tokens).  (..., 2) -> (...)"""
    return np.exp(pooled_ratio(means))


def bootstrap_interval(
    values: np.ndarray, statistic: Statistic, resamples: int, seed: int
) -> tuple[float, float]:
    """The interval of one statistic: see `bootstrap_intervals`.

    statistic maps the means of resamples (R, K) to (R,): `mean`, `pooled_perplexity`,
    `tinylm.evaluate.bleu.corpus_bleu`, or any function of column means. The ends are rounded to
    ten digits, since the last ones depend on the order in which a CPU adds.
    """
    low, high = bootstrap_intervals(values, statistic, resamples, seed)
    return float(f"{low:.10g}"), float(f"{high:.10g}")


def bootstrap_intervals(
    values: np.ndarray, statistic: Statistic, resamples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """95 % percentile intervals over samples drawn with replacement (Efron 1979): lows and highs.

    values (samples,) or (samples, K): one row per sample; rows are drawn whole, so each row must
    be independent of the others. statistic maps the means of resamples (R, K) to (R, M), or to
    (R,) for one. All M statistics share the resamples. The intervals have shape (M,), or () for
    one statistic. Equal arguments give equal intervals. Raises ValueError without a sample or
    without a resample.
    """
    table = np.asarray(values, dtype=np.float64)
    samples = len(table)
    if samples == 0 or resamples < 1:
        allowed = "allowed: at least 1 of each"
        raise ValueError(f"bootstrap of {samples} samples, {resamples} resamples; {allowed}")
    table = table.reshape(samples, -1)
    equal_chances = np.full(samples, 1 / samples)
    rng = np.random.default_rng(seed)
    block = max(_DRAWS_AT_ONCE // samples, 1)
    resampled = []
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        counts = rng.multinomial(samples, equal_chances, size=size)
        means = counts @ table / samples  # (block, samples) @ (samples, K)
        resampled.append(statistic(means))
    tail = (1 - LEVEL) / 2
    values_of_resamples = np.concatenate(resampled)
    low, high = np.quantile(values_of_resamples, [tail, 1 - tail], axis=0)
    return low, high


def merge_repeats(values: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Sums of the rows (S, K) of equal texts: (different texts, K), in the order of their first rows.

    names: one for each row, equal for equal texts. A bootstrap draws these sums, since the copies
    of a text are not independent of each other.
    """
    _, first, text = np.unique(names, return_index=True, return_inverse=True)
    sums = np.zeros((len(first), values.shape[1]))
    np.add.at(sums, text, values)
    return sums[np.argsort(first)]


def wilson(count: float, of: int) -> dict[str, float] | None:
    """The share count / of with its 95 % score interval (Wilson 1927); None if `of` is 0.

    Unlike the normal interval it is right for shares of 0 and 1 too.
    """
    if not of:
        return None
    share = count / of
    square = Z95**2 / of
    centre = (share + square / 2) / (1 + square)
    variance = share * (1 - share) / of + square / (4 * of)
    half = Z95 * float(np.sqrt(variance)) / (1 + square)
    low = max(centre - half, 0.0)
    high = min(centre + half, 1.0)
    return {"value": share, "low": low, "high": high}


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
    """The t > 0 whose `student_p_value` is `level`, by bisection: 12.706 for 0.05 and 1."""
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


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p values for their number (Holm 1979); returns them in the same order.

    The k-th smallest of n, counted from 0, is multiplied by n - k and cut at 1. A larger p never
    gets the smaller corrected one. Valid for any dependence between the tests.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, index in enumerate(order):
        multiplied = min((len(p_values) - rank) * p_values[index], 1.0)
        largest = max(largest, multiplied)
        corrected[index] = largest
    return corrected


def df_of_texts(texts: float) -> int:
    """Degrees of freedom of a standard error over texts: at most 100, since more hardly matter."""
    return int(min(max(texts - 1, 1), 100))


def least_p(texts: float) -> float:
    """The smallest p value for this number of texts: the chance that all differ in one direction.

    Without this limit, a few equal or skewed differences would look certain.
    """
    return 2.0 ** (1 - texts)


# What may be claimed
#
# Every sentence with "higher" or "lower" comes from `claims`, with all the comparisons of one page or table at once. The
# tests simulate pages without any effect: at most 5 of 100 claim anything.


@dataclasses.dataclass(frozen=True)
class Effect:
    """A difference from the value expected without an effect, with its 95 % interval.

    count: the independent texts, draws or trials that the interval is over.
    pooled: the error is pooled over many settings, with count - 1 degrees of freedom.
    """

    value: float
    low: float
    high: float
    count: float
    pooled: bool = False

    @property
    def obstacle(self) -> str:
        """Why nothing can be claimed; "" if something can."""
        if not np.isfinite([self.value, self.low, self.high]).all():
            return "a value is not finite"
        return "" if self.count >= MIN_TEXTS else f"an interval needs {MIN_TEXTS} texts or more"

    @property
    def p(self) -> float:
        """Two-sided p value of "there is no effect", by Student's t."""
        if not self.value:
            return 1.0
        half = self.value - self.low if self.value > 0 else self.high - self.value
        error = half / Z95 * math.sqrt(self.count / (self.count - 1))
        least = 0.0 if self.pooled else least_p(self.count)
        if not error:
            return least
        return max(student_p_value(self.value / error, df_of_texts(self.count)), least)


def effect_between(one: Mapping[str, float], other: Mapping[str, float], count: float) -> Effect:
    """The difference one - other of two values that have intervals: keys value, low, high.

    Each end of the interval adds the two distances to the ends in squares (Zou and Donner 2008).
    It fits independent values; for values over the same texts it is usually too wide.
    """
    value = one["value"] - other["value"]
    below = math.hypot(one["value"] - one["low"], other["high"] - other["value"])
    above = math.hypot(one["high"] - one["value"], other["value"] - other["low"])
    return Effect(value, value - below, value + above, count)


@dataclasses.dataclass(frozen=True)
class Claim:
    """What may be said of an effect: `HIGHER`, `LOWER` or `NOT_SHOWN`.

    p: corrected for `comparisons`; None if there is an obstacle, which `reason` names.
    """

    verdict: str
    p: float | None
    comparisons: int
    reason: str

    def in_words(self, higher: str, lower: str) -> str:
        """The verdict with these words for a claim, and p."""
        words = {HIGHER: higher, LOWER: lower, NOT_SHOWN: NO_CLAIM}[self.verdict]
        if self.p is None:
            return f"{words}: {self.reason}"
        after = f" after {self.comparisons} comparisons" if self.comparisons > 1 else ""
        return f"{words}; p = {self.p:.2g}{after}"


def claims(
    effects: Mapping[K, "Effect | Difference"],
    hypotheses: Mapping[K, Hashable] | None = None,
    level: float = ALPHA,
) -> dict[K, Claim]:
    """Decide what may be claimed of all effects of one page.

    A page makes a false claim with a probability of at most `level`: Holm's method corrects p for
    the number of hypotheses. Effects of the same hypothesis share their largest p and every
    obstacle, so they are claimed together or not at all.
    """
    names = {key: (hypotheses or {}).get(key, key) for key in effects}
    obstacles = {names[key]: effect.obstacle for key, effect in effects.items() if effect.obstacle}
    p_values: dict[Hashable, float] = {}
    for key, effect in effects.items():
        name = names[key]
        if name not in obstacles:
            p_values[name] = max(effect.p, p_values.get(name, 0.0))
    corrected = dict(zip(p_values, holm(list(p_values.values()))))
    result = {}
    for key, effect in effects.items():
        p = corrected.get(names[key])
        verdict = NOT_SHOWN
        if p is not None and p <= level:
            verdict = HIGHER if effect.value > 0 else LOWER
        result[key] = Claim(verdict, p, len(corrected), obstacles.get(names[key], ""))
    return result
