import numpy as np

from tests.support.plain_run import PlainRun, assert_weights, near
from tinylm.bench.seeds import METRICS, in_words, merge, scores_of


def test_one_seed_has_no_spread():
    assert merge({1: dict.fromkeys(METRICS, 2.0)})["perplexity"] == {"mean": 2.0}


def test_the_held_out_loss_of_a_seed_is_that_of_its_saved_weights(folder):
    run = {"held_out_loss": 5000.0, "held_out_perplexity": 1e260, "held_out_loss_best": 1.0}
    assert scores_of(run, "train", "evaluate")["held_out_loss"] == 5000.0


def test_a_seed_that_diverged_leaves_the_other_numbers():
    fine, diverged = (dict.fromkeys(METRICS, value) for value in (2.0, 5000.0))
    merged = merge({1: fine, 2: diverged | {"perplexity": None}})
    assert merged["nats_per_token"]["mean"] == 2501.0
    assert "perplexity" not in merged
    assert "diverged" in in_words(merged)


def test_another_seed_and_the_spread(finished_run):
    plain = PlainRun(finished_run, seed=2)
    run = plain.training
    np.testing.assert_allclose(plain.json("data/seeds/2/run")["held_out"], run.held_out, rtol=1e-4)
    plain.assert_plotted("seeds", "seed 2", run.held_out)
    models = [plain.model(), plain.model("data/seeds/2/model")]
    assert_weights(models[1].state_dict(), run.weights[-1])
    losses = [plain.loss(model, plain.ids["evaluation"]) for model in models]
    held_out = [plain.loss(model, plain.ids["held_out"]) for model in models]
    names = ("nats_per_token", "perplexity", "held_out_loss")
    seeds = plain.json("data/figures/seeds")
    for name, values in zip(names, (losses, np.exp(losses), held_out), strict=True):
        assert [seeds["by_seed"][seed][name] for seed in "12"] == near(list(values))
        sd = np.std(values, ddof=1)
        assert seeds[name]["mean"] == near(np.mean(values))
        assert seeds[name]["sd"] == near(sd, rel=1e-3)
        assert seeds[name]["difference"] == near(12.7062 * 2**0.5 * sd, rel=1e-3)  # t, df 1
