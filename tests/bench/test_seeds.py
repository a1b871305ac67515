import math

import pytest

from tinylm.bench.seeds import METRICS, merge, scores_of


def test_one_seed_has_no_spread():
    assert merge({1: dict.fromkeys(METRICS, 2.0)})["perplexity"] == {"mean": 2.0}


def test_the_held_out_loss_of_a_seed_is_that_of_its_saved_weights(folder):
    run = {"held_out_perplexity": 7.0, "held_out_loss_best": 1.0}
    scores = scores_of(run, "train", "evaluate")
    assert scores["held_out_loss"] == pytest.approx(math.log(7))
