"""The loop and its parts: budgets, the loss over a split; updates as on a CUDA card."""

import math

import pytest
import torch

from tinylm.base.config import InputError
from tinylm.train import loop
from tinylm.train.curves import Curves, TrainResult, run_metrics
from tinylm.train.graphs import GraphedTrainer
from tinylm.train.loop import train
from tinylm.train.trainer import Trainer, learning_rate
from tinylm.train.validation import out_of_patience, split_loss


@pytest.fixture
def start(new_run, new_settings):
    """start(settings): the result of a run of the small model."""
    return lambda **changes: train(new_run(new_settings(**changes)))


@pytest.mark.parametrize(("optimizer", "precision"), [("adamw", "bf16"), ("muon", "bf16")])
def test_training_learns_what_can_be_learnt(new_model, new_settings, new_run, optimizer, precision):
    settings = new_settings(optimizer=optimizer, precision=precision, tokens=5000)
    result = train(new_run(settings, model=new_model(settings)))
    first = result.curves.held_out[0][2]
    assert first > 2.5
    # only the first number of a story and its end stay a guess
    assert result.curves.held_out[-1][2] < 0.6 * first


@pytest.mark.parametrize("key", ["tokens", "epochs"])
def test_a_budget_below_one_update_is_refused(start, new_batches, key):
    least = new_batches().batch(0).tokens
    budget = {"tokens": None, "epochs": 0.001} if key == "epochs" else {key: least - 1}
    with pytest.raises(InputError, match=rf"train\.{key}.* {least}"):
        start(**budget)
    assert len(start(tokens=least).curves.tokens) == 1


@pytest.mark.parametrize("kept_best", [True, False])
def test_the_reported_perplexity_is_that_of_the_saved_weights(new_batches, kept_best):
    curves = Curves(train=[2.0], tokens=[10], held_out=[(0, 0, 1.5), (1, 10, 2.5)])
    metrics = run_metrics(TrainResult(curves, False, kept_best, 1.0), new_batches())
    assert metrics["held_out_loss"] == (1.5 if kept_best else 2.5)
    assert metrics["held_out_perplexity"] == pytest.approx(math.exp(metrics["held_out_loss"]))


def test_the_loss_of_a_run_that_diverged_is_not_cut_off(new_batches):
    curves = Curves(train=[2.0], tokens=[10], held_out=[(0, 0, 1.5), (1, 10, 5000.0)])
    metrics = run_metrics(TrainResult(curves, False, False, 1.0), new_batches())
    assert metrics["held_out_loss"] == 5000.0
    assert math.isfinite(metrics["held_out_perplexity"])


@pytest.mark.parametrize(("epochs", "accumulation"), [(1.0, 10), (2.0, 3)])
def test_a_budget_of_epochs_is_used_up_by_a_smaller_last_update(
    start, new_batches, epochs, accumulation
):
    batches = new_batches()
    result = start(tokens=None, epochs=epochs, accumulation=accumulation, final_lr=0.0)
    assert len(batches) * epochs % accumulation
    assert result.tokens == epochs * batches.tokens_per_epoch
    assert result.curves.rate[-1] < 0.1 * max(result.curves.rate)
    assert len(run_metrics(result, batches)["by_epoch"]) == epochs


def test_dropout_is_off_and_mode_and_random_stream_are_restored(new_model, ragged):
    model = new_model(dropout=0.5)
    state = torch.get_rng_state()
    for training in (True, False):
        model.train(training)
        assert split_loss(model, ragged) == split_loss(model, ragged)
        assert model.training is training
    assert torch.equal(torch.get_rng_state(), state)


def test_bfloat16_is_near_float32(new_model, ragged):
    model = new_model()
    exact, _ = split_loss(model, ragged)
    low, _ = split_loss(model, ragged, "bf16")
    assert exact != low
    assert low == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        # at 0.4: 4 (0.1 + 0.9 (1 + cos(pi / 4)) / 2)
        ("cosine", {0.0: 0.0, 0.1: 2.0, 0.2: 4.0, 0.4: 3.472792206135786, 1.0: 0.4, 1.3: 0.4}),
        ("constant", {0.0: 0.0, 0.1: 2.0, 0.2: 4.0, 0.6: 4.0, 1.0: 4.0}),
    ],
)
def test_the_rate_by_value(schedule, rates):
    for progress, rate in rates.items():
        assert learning_rate(progress, 4.0, 0.2, schedule, 0.1) == pytest.approx(rate, rel=1e-12)
    assert learning_rate(0.0, 4.0, 0.0, schedule, 0.1) == 4.0  # without warmup


@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
def test_updates_as_on_a_card_are_those_of_the_reference(
    new_model, new_batches, new_settings, optimizer, accumulation
):
    settings = new_settings(optimizer=optimizer, accumulation=accumulation, clip_norm=0.5)
    # a key's bias has no gradient: Adam would turn its rounding errors into steps
    plain, graphed = (
        kind(new_model(settings, qkv_bias=False), new_batches(), settings)
        for kind in (Trainer, GraphedTrainer)
    )
    for _ in range(6):
        expected = plain.update(plain.next_batches())
        assert graphed.update(graphed.next_batches()) == pytest.approx(expected, rel=1e-5)
    assert (graphed.updates, graphed.tokens) == (plain.updates, plain.tokens)
    others = graphed.model.state_dict()
    for name, tensor in plain.model.state_dict().items():
        torch.testing.assert_close(others[name], tensor, rtol=1e-4, atol=1e-5)


def test_a_run_with_late_results_has_all_of_them(new_model, new_run, new_settings, monkeypatch):
    settings = new_settings(tokens=3000)
    plain = loop.train(new_run(settings, model=new_model(settings)))
    made = []
    monkeypatch.setattr(
        loop, "new_trainer", lambda *args: made.append(GraphedTrainer(*args[:3])) or made[0]
    )
    unread = []
    late = loop.train(
        new_run(settings, model=new_model(settings)),
        sample_every=3,
        on_sample=lambda _: unread.append(len(made[0]._in_flight)),
    )
    assert set(unread) == {0}  # before a sample, waiting for results counts as training time
    assert late.curves.tokens == plain.curves.tokens
    assert late.curves.train == pytest.approx(plain.curves.train, rel=1e-4)
    measured = late.curves.held_out[-1]
    assert measured[2] == pytest.approx(plain.curves.held_out[-1][2], rel=1e-4)


def test_only_validations_at_multiples_of_validate_every_count_against_patience():
    """Wherever the best one was: here at the end of an epoch."""
    held_out = [(10, 0, 3.0), (17, 0, 1.0), (20, 0, 2.0), (27, 0, 2.0)]
    assert not out_of_patience(held_out, 2, 10)
    assert out_of_patience([*held_out, (30, 0, 2.0)], 2, 10)
