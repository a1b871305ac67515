import statistics

import numpy as np
import pytest

from tinylm.base.config import InputError, read_section
from tinylm.bench.measure import SeedSettings
from tinylm.bench.seeds import METRICS, curves, merge


def figures(value: float) -> dict:
    return {name: value * (place + 1) for place, name in enumerate(METRICS)}


def test_mean_sd_and_what_a_difference_has_to_exceed():
    merged = merge({7: figures(1.0), 2: figures(1.2), 3: figures(1.1)})
    assert (merged["n"], merged["seeds"]) == (3, [7, 2, 3])
    found = merged["perplexity"]
    assert found["mean"] == pytest.approx(1.1)
    assert found["sd"] == pytest.approx(0.1)
    assert found["difference"] == pytest.approx(
        4.30265 * 2**0.5 * 0.1, rel=1e-5
    )  # t of 2 degrees of freedom
    assert merged["held_out_loss"]["sd"] == pytest.approx(0.4)
    assert merged["by_seed"]["2"] == figures(1.2)


@pytest.mark.parametrize(
    ("n", "t"), [(2, 12.706), (17, 2.120), (18, 2.1098), (31, 2.0423), (121, 1.9799)]
)
def test_the_factor_follows_the_number_of_seeds(n, t):
    values = {seed: figures(1.0 + seed % 2) for seed in range(n)}
    sd = statistics.stdev(row["perplexity"] for row in values.values())
    assert merge(values)["perplexity"]["difference"] == pytest.approx(t * 2**0.5 * sd, rel=1e-4)


def test_95_of_100_differences_of_two_runs_stay_below_it():
    rng = np.random.default_rng(0)
    below = 0
    for draw in rng.normal(20.0, 0.5, size=(2000, 5)):
        three = {seed: figures(value) for seed, value in enumerate(draw[:3])}
        below += abs(draw[3] - draw[4]) < merge(three)["perplexity"]["difference"]
    assert 1870 < below < 1930


def test_one_seed_has_no_spread():
    merged = merge({1: figures(2.0)})
    assert merged["n"] == 1
    assert merged["perplexity"] == {"mean": 2.0}
    assert curves({1: [(0, 0, 5.0), (10, 100, 4.0)]}) == [
        (0, 0, "seed 1", 5.0),
        (10, 100, "seed 1", 4.0),
    ]


def test_a_figure_that_a_seed_lacks_is_left_out():
    merged = merge({1: figures(2.0), 2: figures(2.0) | {"bits_per_byte": None}})
    assert "bits_per_byte" not in merged
    assert merged["by_seed"]["2"]["bits_per_byte"] is None
    assert merged["perplexity"]["sd"] == 0


def test_the_band_is_interpolated_over_tokens_up_to_where_the_shortest_run_ends():
    rows = curves(
        {1: [(0, 0, 5.0), (10, 100, 4.0), (20, 220, 3.0)], 2: [(0, 0, 6.0), (10, 200, 2.0)]}
    )
    band = {
        series: [row for row in rows if row[2] == series]
        for series in ("mean", "lowest", "highest")
    }
    assert [row[:2] for row in band["mean"]] == [(0, 0), (10, 100), (18, 200)]
    assert [row[3] for row in band["lowest"]] == pytest.approx([5.0, 4.0, 2.0])
    assert [row[3] for row in band["highest"]] == pytest.approx([6.0, 4.0, 3.0 + 20 / 120])
    assert [row[3] for row in band["mean"]] == pytest.approx([5.5, 4.0, (2.0 + 3.0 + 20 / 120) / 2])
    assert [row for row in rows if row[2] == "seed 2"] == [
        (0, 0, "seed 2", 6.0),
        (10, 200, "seed 2", 2.0),
    ]


def test_settings():
    assert read_section({"seeds": {"more": []}}, "seeds", SeedSettings).more == ()
    with pytest.raises(InputError, match=r"seeds.more = \[2, 3, 2\]; allowed: all different"):
        read_section({"seeds": {"more": [2, 3, 2]}}, "seeds", SeedSettings)
