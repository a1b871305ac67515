import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages import train
from stages.seeds import remove_other_seeds
from tests.support.stages import read
from tinylm.bench.seeds import first_curve, score_of, shown_perplexity, summarise
from tinylm.run.interval import student_critical_value
from tinylm.run.seeds import SeedScore, Spread


def test_the_held_out_loss_of_a_seed_is_that_of_its_saved_weights(folder):
    assert score_of(5000.0, "train", "evaluate").held_out_loss == 5000.0


def test_only_the_seeds_of_params_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in (2, 3, 10):
        (tmp_path / "data/seeds" / str(seed)).mkdir(parents=True)
        (tmp_path / f"data/seeds/{seed}.json").touch()
    (tmp_path / "data/seeds/train.json").touch()
    remove_other_seeds((2, 4))
    left = sorted(path.name for path in (tmp_path / "data/seeds").iterdir())
    assert left == ["2", "2.json", "train.json"]


KNOWN = st.none() | st.floats(0.5, 9)


@given(
    st.dictionaries(st.integers(1, 9), st.builds(SeedScore, KNOWN, KNOWN, KNOWN, KNOWN), min_size=1)
)
def test_a_metric_that_every_seed_has_is_summarised(scores):
    """None where a seed diverged, which leaves the other metrics."""
    seeds = summarise(scores)
    for name in ("perplexity", "nats_per_token", "raw_bits_per_byte", "held_out_loss"):
        values = [getattr(score, name) for score in scores.values()]
        expected = None
        if None not in values:
            expected = Spread(pytest.approx(np.mean(values)))
            if len(values) > 1:
                sd = np.std(values, ddof=1)
                bound = student_critical_value(0.05, len(values) - 1) * 2**0.5 * sd
                known = [pytest.approx(value, abs=1e-9) for value in (sd, bound)]
                expected = Spread(expected.mean, *known)
        assert getattr(seeds, name) == expected
    assert ("diverged" in shown_perplexity(seeds)) == (seeds.perplexity is None)


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
