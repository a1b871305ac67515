import statistics

import pytest

from tinylm.base.config import InputError, read_section
from tinylm.bench.measure import SeedSettings
from tinylm.bench.seeds import METRICS, curves, merge


def metrics(value: float) -> dict:
    return {name: value * (place + 1) for place, name in enumerate(METRICS)}


def test_mean_and_deviation_of_each_metric_that_all_seeds_have():
    lacking = metrics(1.2) | {"raw_bits_per_byte": None}
    merged = merge({7: metrics(1.0), 2: lacking, 3: metrics(1.1)})
    assert (merged["n"], merged["seeds"]) == (3, [7, 2, 3])
    assert merged["perplexity"]["mean"] == pytest.approx(1.1)
    assert merged["perplexity"]["sd"] == pytest.approx(0.1)
    assert merged["held_out_loss"]["sd"] == pytest.approx(0.4)
    assert "raw_bits_per_byte" not in merged
    assert merged["by_seed"]["2"] == lacking


@pytest.mark.parametrize(
    ("n", "t"), [(2, 12.706), (3, 4.30265), (17, 2.120), (31, 2.0423), (121, 1.9799)]
)
def test_what_a_difference_has_to_exceed_follows_the_number_of_seeds(n, t):
    values = {seed: metrics(1.0 + seed % 2) for seed in range(n)}
    sd = statistics.stdev(row["perplexity"] for row in values.values())
    assert merge(values)["perplexity"]["difference"] == pytest.approx(t * 2**0.5 * sd, rel=1e-4)


def test_one_seed_has_no_spread():
    assert merge({1: metrics(2.0)})["perplexity"] == {"mean": 2.0}
    rows = curves({1: [(0, 0, 5.0), (10, 100, 4.0)]})
    assert rows == [(0, 0, "seed 1", 5.0), (10, 100, "seed 1", 4.0)]


def test_further_seeds_are_all_different():
    assert read_section({"seeds": {"more": []}}, "seeds", SeedSettings).more == ()
    with pytest.raises(InputError, match=r"seeds\.more"):
        read_section({"seeds": {"more": [2, 3, 2]}}, "seeds", SeedSettings)
