import dataclasses

import numpy as np
import pytest

from tinylm.compare.statistics import (
    BySeeds,
    paired_difference,
    reach,
    seed_error,
    shared_seeds,
    unpaired_difference,
)
from tinylm.evaluate.bleu_counts import corpus_bleu, match_counts
from tinylm.evaluate.statistics import pooled_perplexity, pooled_ratio


def tables(shift, seed=1, count=200):
    """Two runs over the same stories: hard and easy ones alike, the second better by `shift` nats per token."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(50, 150, count)
    hardness = rng.normal(2.0, 0.5, count)
    rows = [tokens * (hardness + move + rng.normal(0, 0.02, count)) for move in (0.0, shift)]
    return [np.stack([nats, tokens], axis=1).astype(float) for nats in rows]


def test_a_paired_interval_sees_what_an_unpaired_one_cannot():
    first, second = tables(-0.05)
    paired = paired_difference(first, second, pooled_ratio)
    apart = unpaired_difference(first, second, pooled_ratio)
    assert paired.value == pytest.approx(apart.value) == pytest.approx(-0.05, abs=0.01)
    assert paired.low < paired.value < paired.high < 0
    assert apart.low < 0 < apart.high
    assert not paired.holds_zero
    assert apart.holds_zero
    assert paired.high - paired.low < 0.2 * (apart.high - apart.low)
    assert (paired.paired, apart.paired, paired.count) == (True, False, 200)


def test_an_interval_holds_the_truth_as_often_as_it_says():
    held = 0
    for seed in range(60):
        found = paired_difference(*tables(-0.003, seed, count=60), pooled_ratio)
        held += found.low <= -0.003 <= found.high
    assert 50 <= held <= 60


def test_equal_tables_differ_by_nothing_in_every_resample():
    first, _ = tables(0.0)
    for statistic in (pooled_ratio, pooled_perplexity):
        found = paired_difference(first, first.copy(), statistic)
        assert (found.value, found.low, found.high) == (0, 0, 0)


def test_corpus_bleu_is_paired_over_prompts():
    references = [f"the dog number {i} ran to the house and slept" for i in range(30)]
    good = [
        f"the dog number {i} ran to the {'shed' if i % 3 else 'house'} and slept" for i in range(30)
    ]
    poor = [f"the dog number {i % 7} ran to a shed" for i in range(30)]
    counts = [match_counts(texts, references, "none").astype(float) for texts in (poor, good)]
    found = paired_difference(*counts, corpus_bleu)
    assert found.second == pytest.approx(float(corpus_bleu(counts[1].sum(axis=0))))
    assert 0 < found.low < found.value < found.high


def test_the_error_of_seeds_is_paired_where_the_seeds_are_the_same():
    first, second = {1: 2.0, 2: 3.0, 3: 4.0}, {1: 2.5, 2: 3.4, 3: 4.6}
    apart = np.array([0.5, 0.4, 0.6])
    paired = seed_error(first, second)
    assert paired == BySeeds(pytest.approx(apart.std(ddof=1) / 3**0.5), 2, (3, 3), paired=True)
    assert shared_seeds(first, {2: 0.0, 3: 0.0}) == [2, 3]
    assert shared_seeds(first, {3: 0.0, 4: 0.0}) == shared_seeds({1: 0.0}, {1: 0.0}) == []
    others = {seed + 10: value for seed, value in second.items()}
    variances = np.var([2, 3, 4], ddof=1), np.var([2.5, 3.4, 4.6], ddof=1)
    assert seed_error(first, others) == BySeeds(
        pytest.approx((sum(variances) / 3) ** 0.5), 2, (3, 3), paired=False
    )
    assert seed_error(first, {9: 5.0}) == BySeeds(
        pytest.approx((1 / 3 + 1) ** 0.5), 2, (3, 1), paired=False
    )
    assert seed_error({1: 2.0}, {1: 3.0}) is seed_error(first, {1: float("nan")}) is None


@pytest.mark.parametrize(("seeds", "share"), [(2, 0.5), (3, 0.1), (3, 0.7), (5, 0.4)])
def test_the_level_holds_whatever_the_share_of_seeds(seeds, share):
    rng, draws, level = np.random.default_rng(5), 4000, 0.05
    spreads = share * rng.chisquare(seeds - 1, draws) / (seeds - 1)
    values = np.abs(rng.standard_normal(draws))
    claims = sum(
        value
        > reach(
            level,
            BySeeds(spread**0.5, seeds - 1, (seeds, seeds), paired=True),
            (1 - share) ** 0.5,
            1000,
        )
        for value, spread in zip(values, spreads, strict=True)
    )
    assert 0.1 * level * draws < claims <= level * draws
    found = dataclasses.replace(paired_difference(*tables(-0.05), pooled_ratio), error=0.01)
    counted = found.over(BySeeds(0.01, seeds - 1, (seeds, seeds), paired=True))
    assert reach(counted.p, counted.seeds, counted.error, 200) == pytest.approx(
        abs(counted.value), rel=1e-3
    )
    assert counted.holds_zero == (counted.p > level)
