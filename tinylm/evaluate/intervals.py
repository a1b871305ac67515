"""95 % intervals of what is measured on samples, by the bootstrap.

Needs only numpy, so runs can be compared without loading torch.
"""

from collections.abc import Callable, Sequence

import numpy as np

Statistic = Callable[[np.ndarray], np.ndarray]  # column means (..., K) -> (...)

LEVEL = 0.95  # confidence level of all intervals
_DRAWS_AT_ONCE = 1_000_000  # keeps a block of resamples to some tens of MiB


def mean(means: np.ndarray) -> np.ndarray:
    """The mean of one value per sample.  (..., K) -> (...)"""
    return means[..., 0]


def pooled_ratio(means: np.ndarray) -> np.ndarray:
    """The sum of column 0 / the sum of column 1.  (..., 2) -> (...)"""
    return means[..., 0] / means[..., 1]


def words_per_error(means: np.ndarray) -> np.ndarray:
    """Words read per error, from the means of (words, errors); very large without errors.  (..., 2) -> (...)"""
    return means[..., 0] / np.maximum(means[..., 1], 1e-9)


def ratios_to_last(means: np.ndarray) -> np.ndarray:
    """The sum of each column / the sum of the last; 0 if that is 0.  (R, M + 1) -> (R, M)"""
    return means[:, :-1] / np.maximum(means[:, -1:], 1e-12)


def pooled_perplexity(means: np.ndarray) -> np.ndarray:
    """exp(all nats / all tokens) of samples given as (nats, tokens).  (..., 2) -> (...)"""
    return np.exp(pooled_ratio(means))


def bootstrap_interval(
    values: np.ndarray, statistic: Statistic, resamples: int, seed: int
) -> tuple[float, float]:
    """The interval of one statistic: see `bootstrap_intervals`.

    Rounded to ten digits, since later ones depend on the order in which a CPU adds.
    """
    low, high = bootstrap_intervals(values, statistic, resamples, seed)
    return float(f"{low:.10g}"), float(f"{high:.10g}")


def bootstrap_intervals(
    values: np.ndarray, statistic: Statistic, resamples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """95 % percentile intervals over samples drawn with replacement (Efron 1979): lows and highs.

    values (samples,) or (samples, K): rows are drawn whole, so each must be independent of the
    others. statistic maps the means of resamples (R, K) to (R, M), or to (R,) for one: `mean`,
    `pooled_perplexity`, or any function of column means. All M statistics share the resamples.
    The intervals have shape (M,), or (). Raises ValueError without a sample or a resample.
    """
    table = np.asarray(values, dtype=np.float64)
    samples = len(table)
    if samples == 0 or resamples < 1:
        raise ValueError(
            f"a bootstrap needs at least one sample and one resample, got {samples} and {resamples}"
        )
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
    """Sum the rows (S, K) of identical texts: (distinct texts, K), in order of first occurrence.

    names: one for each row, equal for identical texts. A bootstrap draws these sums, since copies
    of a text are not independent.
    """
    _, first, text = np.unique(names, return_index=True, return_inverse=True)
    sums = np.zeros((len(first), values.shape[1]))
    np.add.at(sums, text, values)
    return sums[np.argsort(first)]
