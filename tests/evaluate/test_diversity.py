import numpy as np
import pytest

from tinylm.evaluate.diversity import distinct_n, repeated_share
from tinylm.evaluate.statistics import (
    bootstrap_interval,
    bootstrap_intervals,
    mean,
    pooled_perplexity,
)


def test_distinct_n_pools_texts_and_never_crosses_them():
    texts = ["a b a", "a b"]
    assert distinct_n(texts, 1) == 2 / 5
    assert distinct_n(texts, 2) == 2 / 3  # ab ba ab
    assert distinct_n(texts, 3) == 1.0


def test_repeated_share_is_a_mean_over_texts():
    assert repeated_share(["a b a b a", "x y"], 2) == pytest.approx((2 / 4 + 0) / 2)
    assert repeated_share(["go go go go", "x"], 2) == pytest.approx(2 / 3)


@pytest.mark.parametrize("texts", [[], [""], ["a"], ["", " "]])
def test_texts_without_ngrams_give_zero(texts):
    assert distinct_n(texts, 2) == 0.0
    assert repeated_share(texts, 2) == 0.0


def test_bootstrap_of_a_mean_matches_the_normal_interval():
    values = np.random.default_rng(5).normal(3.0, 2.0, 4001)
    low, high = bootstrap_interval(values, mean, 3000, seed=1)
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - half, abs=0.08 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.08 * half)
    narrow = bootstrap_interval(values, mean, 3000, seed=1, level=0.5)
    assert low < narrow[0] < values.mean() < narrow[1] < high
    assert narrow[1] - narrow[0] == pytest.approx(2 * half * 0.6745 / 1.96, rel=0.1)


def test_bootstrap_matches_a_slow_loop_over_resamples():
    """Pooled perplexity of ragged stories; the loop draws on its own, so only the interval agrees."""
    rng = np.random.default_rng(7)
    tokens = rng.integers(3, 300, 97)
    pairs = np.column_stack([tokens * rng.normal(1.5, 0.3, 97), tokens])
    slow = []
    for _ in range(4000):
        drawn = pairs[rng.integers(97, size=97)].sum(axis=0)
        slow.append(np.exp(drawn[0] / drawn[1]))
    found = bootstrap_interval(pairs, pooled_perplexity, 4000, seed=2)
    assert found == pytest.approx(np.quantile(slow, [0.025, 0.975]), rel=0.01)


def test_bootstrap_of_corpus_bleu_holds_the_score():
    from tinylm.evaluate.bleu_counts import corpus_bleu, match_counts

    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(list("abcd"), 31)) for _ in range(80)]
    counts = match_counts(texts[:40], texts[40:], "none")
    low, high = bootstrap_interval(counts, corpus_bleu, 500, seed=1)
    assert 0 < low < corpus_bleu(counts.sum(axis=0)) < high < 1


def test_several_statistics_share_the_resamples():
    values = np.random.default_rng(5).random((1201, 3))
    lows, highs = bootstrap_intervals(values, lambda means: means, 1700, seed=3)
    for column in range(3):
        assert (lows[column], highs[column]) == pytest.approx(
            bootstrap_interval(values[:, column], mean, 1700, seed=3)
        )


def test_bootstrap_is_a_function_of_its_seed():
    values = np.random.default_rng(5).random(1201)  # several blocks of resamples
    first = bootstrap_interval(values, mean, 1700, seed=3)
    assert first == bootstrap_interval(values, mean, 1700, seed=3)
    assert first != bootstrap_interval(values, mean, 1700, seed=4)


def test_bootstrap_draws_as_many_resamples_as_asked():
    rows = []
    bootstrap_interval(
        np.arange(1201.0), lambda means: rows.append(means) or means[:, 0], 1700, seed=3
    )
    assert len(rows) > 1  # in blocks
    assert np.concatenate(rows).shape == (1700, 1)


def test_one_sample_has_no_spread():
    assert bootstrap_interval(np.array([2.5]), mean, 50, seed=1) == (2.5, 2.5)


@pytest.mark.parametrize(("values", "resamples"), [([], 10), ([1.0], 0)])
def test_nothing_to_resample_is_refused(values, resamples):
    with pytest.raises(ValueError, match="at least 1 of each"):
        bootstrap_interval(np.array(values), mean, resamples, seed=1)
