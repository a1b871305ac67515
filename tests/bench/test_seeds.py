import statistics

import pytest

from stages import train
from tests.support.stages import read
from tinylm.bench.seeds import first_curve, score_of, shown_perplexity, summarise
from tinylm.run.seeds import SeedScore, Spread


def test_one_seed_has_no_spread():
    assert summarise({1: SeedScore(2.0, 2.0, 2.0, 2.0)}).perplexity == Spread(2.0)


def test_the_held_out_loss_of_a_seed_is_that_of_its_saved_weights(folder):
    assert score_of(5000.0, "train", "evaluate").held_out_loss == 5000.0


def test_a_seed_that_diverged_leaves_the_other_numbers():
    diverged = SeedScore(None, 5000.0, 5000.0, 5000.0)
    seeds = summarise({1: SeedScore(2.0, 2.0, 2.0, 2.0), 2: diverged})
    assert seeds.nats_per_token.mean == 2501.0
    assert seeds.perplexity is None
    assert "diverged" in shown_perplexity(seeds)


def test_a_seed_is_a_training_with_that_seed(folder, change):
    change({"train.seed": 2, "seeds.more": []})
    train.main()
    expected = read(folder / "data/seeds/2/run.json")["held_out"]
    assert [list(row) for row in first_curve()] == [
        pytest.approx(row, rel=1e-4) for row in expected
    ]


def test_the_spread_is_that_of_the_scores_of_all_seeds(finished_run):
    seeds = read(finished_run / "data/figures/seeds.json")
    first, second = losses = [seeds["by_seed"][seed]["nats_per_token"] for seed in "12"]
    assert first != second
    found = seeds["nats_per_token"]
    sd = statistics.stdev(losses)
    difference = 12.7062 * 2**0.5 * sd  # Student's t with one degree of freedom
    expected = {"mean": (first + second) / 2, "sd": sd, "difference": difference}
    assert found == pytest.approx(expected, rel=1e-4)
