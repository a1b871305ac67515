"""How varied generated texts are, and how much of a figure over texts may be chance (bootstrap)."""

from collections.abc import Callable, Sequence

import numpy as np

_DRAWS_AT_ONCE = 1_000_000  # a block of resamples then uses some tens of MiB


def distinct_n(texts: Sequence[str], n: int) -> float:
    """Different n-grams of words / all n-grams of all texts (Li et al. 2016); 0.0 if there are none.

    No n-gram spans two texts.
    """
    grams = [gram for text in texts for gram in _ngrams(text, n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def repeated_share(texts: Sequence[str], n: int) -> float:
    """Share of a text's n-grams that occurred earlier in the same text, mean over texts (Welleck et al. 2020).

    Texts shorter than n are left out; 0.0 if none remain.
    """
    shares = repeated_shares(texts, n)
    return float(np.mean(shares)) if shares else 0.0


def repeated_shares(texts: Sequence[str], n: int) -> list[float]:
    """Of each text with n words or more, the share of its n-grams that occurred earlier in it."""
    grams = [found for text in texts if (found := _ngrams(text, n))]
    return [1 - len(set(found)) / len(found) for found in grams]


def bootstrap_interval(
    values: np.ndarray,
    statistic: Callable[[np.ndarray], np.ndarray],
    resamples: int,
    seed: int,
    level: float = 0.95,
) -> tuple[float, float]:
    """Percentile interval of a statistic over samples drawn with replacement (Efron 1979).

    `bootstrap_intervals` for a statistic that maps the means of resamples (R, K) to (R,): `mean`,
    `pooled_perplexity`, `scoring.bleu_counts.corpus_bleu`, or any function of column means.
    """
    low, high = bootstrap_intervals(values, statistic, resamples, seed, level)
    return float(f"{low:.10g}"), float(
        f"{high:.10g}"
    )  # the last digits depend on how a CPU orders sums


def bootstrap_intervals(
    values: np.ndarray,
    statistic: Callable[[np.ndarray], np.ndarray],
    resamples: int,
    seed: int,
    level: float = 0.95,
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile intervals of several statistics over the same resamples: lows and highs, (M,) each.

    values (samples,) or (samples, K): the statistic's input for each sample. statistic maps the means of
    resamples (R, K) to (R, M), or (R,) for one. Equal arguments give equal intervals. Raises ValueError if there
    is nothing to resample.
    """
    table = np.asarray(values, dtype=np.float64)
    samples = len(table)
    if samples == 0 or resamples < 1:
        raise ValueError(
            f"bootstrap of {samples} samples, {resamples} resamples; allowed: at least 1 of each"
        )
    table = table.reshape(samples, -1)
    rng = np.random.default_rng(seed)
    block = max(_DRAWS_AT_ONCE // samples, 1)
    found = []
    for start in range(0, resamples, block):
        times = rng.multinomial(
            samples, np.full(samples, 1 / samples), size=min(block, resamples - start)
        )
        found.append(statistic(times @ table / samples))  # (block, samples) @ (samples, K)
    tail = (1 - level) / 2
    low, high = np.quantile(np.concatenate(found), [tail, 1 - tail], axis=0)
    return low, high


def mean(means: np.ndarray) -> np.ndarray:
    """Statistic for `bootstrap_interval`: the mean of one value per sample."""
    return means[:, 0]


def pooled_perplexity(means: np.ndarray) -> np.ndarray:
    """Statistic for `bootstrap_interval`: exp(all nats / all tokens) of samples given as (nats, tokens).  (..., 2)"""
    return np.exp(means[..., 0] / means[..., 1])


def _ngrams(text: str, n: int) -> list[tuple[str, ...]]:
    words = text.split()
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
