import json

import numpy as np
import pytest

from tinylm.compare.scaling import ALIKE, FLOOR_SIZES, as_json, fit

PARAMETERS = np.geomspace(1e5, 1e7, 8)


def rows(sizes, losses, axis="parameters"):
    return [
        {"name": f"r{i}", axis: float(x), "loss": float(y)}
        for i, (x, y) in enumerate(zip(sizes, losses))
    ]


def test_a_power_law_with_a_floor_is_found_again():
    losses = 1.7 + 2.0 * (PARAMETERS / 1e5) ** -0.5
    law = fit(rows(PARAMETERS, losses)).laws["parameters"]
    assert law.with_floor
    assert law.exponent == pytest.approx(0.5, abs=1e-3)
    assert law.floor == pytest.approx(1.7, abs=1e-3)
    assert law.exponent_interval == pytest.approx((0.5, 0.5), abs=2e-3)
    assert law.line[[0, -1]] == pytest.approx(losses[[0, -1]], rel=1e-4)
    assert law.places[[0, -1]] == pytest.approx(PARAMETERS[[0, -1]])


def test_few_sizes_give_a_straight_line_on_the_logarithms():
    sizes = PARAMETERS[: FLOOR_SIZES - 1]
    losses = 3.0 * sizes**-0.07 * np.array([1.01, 0.99, 1.0, 1.003])
    law = fit(rows(sizes, losses, "tokens")).laws["tokens"]
    slope, _ = np.polyfit(np.log(sizes), np.log(losses), 1)
    assert not law.with_floor
    assert law.exponent == pytest.approx(-slope)
    assert (law.floor, law.floor_interval) == (0.0, (0.0, 0.0))
    assert law.exponent_interval[0] < law.exponent < law.exponent_interval[1]


def test_intervals_of_a_straight_line_are_students():
    sizes = PARAMETERS[:4]
    losses = 3.0 * sizes**-0.07 * np.array([1.01, 0.99, 1.0, 1.003])
    u = np.log(sizes) - np.log(sizes).mean()
    slope, at = np.polyfit(u, np.log(losses), 1)
    residuals = np.log(losses) - slope * u - at
    half = 4.303 * np.sqrt((residuals**2).sum() / 2 / (u**2).sum())  # t of 2 degrees of freedom
    low, high = fit(rows(sizes, losses)).laws["parameters"].exponent_interval
    assert (high - low) / 2 == pytest.approx(half, rel=0.15)  # 1,000 draws


@pytest.mark.parametrize(("n", "floor", "noise"), [(4, 0.0, 0.01), (8, 1.7, 0.005)])
def test_about_95_of_100_intervals_hold_the_true_exponent(n, floor, noise):
    sizes = np.geomspace(1e5, 1e7, n)
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(60):
        losses = (floor + 2.0 * (sizes / 1e5) ** -0.3) * np.exp(noise * rng.standard_normal(n))
        low, high = fit(rows(sizes, losses)).laws["parameters"].exponent_interval
        held += low <= 0.3 <= high
    assert 51 <= held <= 60


def test_of_runs_alike_in_size_the_best_counts_and_a_percent_apart_is_alike():
    sizes = [1e6, 1e6 * ALIKE * 0.999, 4e6, 4e6, 16e6]
    found = fit(rows(sizes, [3.0, 2.9, 2.7, 2.5, 2.2])).laws["parameters"]
    assert found.names == ["r1", "r3", "r4"]
    assert found.losses.tolist() == [2.9, 2.5, 2.2]


def test_a_run_that_a_cheaper_one_beats_is_not_on_the_frontier_of_compute():
    found = fit(rows([1e12, 2e12, 4e12, 8e12], [3.0, 2.6, 2.7, 2.2], "compute"))
    assert found.laws["compute"].names == ["r0", "r1", "r3"]
    assert fit(rows([1e6, 2e6, 4e6, 8e6], [3.0, 2.6, 2.7, 2.2])).laws["parameters"].names == [
        "r0",
        "r1",
        "r2",
        "r3",
    ]


def test_axes_that_the_runs_do_not_spread_over_say_so():
    sweep = [
        {"name": f"lr {i}", "parameters": 1000, "tokens": 5000 * (i + 1), "loss": 3.0 - i / 10}
        for i in range(3)
    ]
    found = fit([*sweep, {"name": "broken", "parameters": 7, "tokens": None, "loss": None}])
    assert list(found.laws) == ["tokens"]
    assert found.missing == {
        "parameters": "1 different size; a fit needs 3",
        "compute": "0 different sizes; a fit needs 3",
    }
    assert fit([]).laws == {}


def test_losses_that_rise_get_a_negative_exponent_and_no_floor():
    law = fit(rows(PARAMETERS, 2.0 + np.arange(8) / 10)).laws["parameters"]
    assert not law.with_floor
    assert law.exponent_interval[1] < 0


def test_losses_without_a_trend_have_an_interval_that_holds_zero():
    law = fit(rows(PARAMETERS[:4], [2.0, 2.1, 1.9, 2.05])).laws["parameters"]
    assert law.exponent_interval[0] < 0 < law.exponent_interval[1]


def test_the_same_rows_give_the_same_json():
    table = rows(PARAMETERS, 1.7 + 2.0 * (PARAMETERS / 1e5) ** -0.5)
    first, second = (json.dumps(as_json(fit(table)), allow_nan=False) for _ in range(2))
    assert first == second
    told = json.loads(first)
    assert told["laws"]["parameters"]["exponent"]["value"] == pytest.approx(0.5, abs=1e-3)
    assert len(told["laws"]["parameters"]["runs"]) == len(told["rows"]) == 8
    assert told["unit"] == "nats per token"
