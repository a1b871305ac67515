"""The loss over a split, early stopping and the learning rate."""

import pytest
import torch

from tinylm.base.config import InputError
from tinylm.train.trainer import learning_rate
from tinylm.train.validation import out_of_patience, split_loss, target_losses


def test_dropout_is_off_and_mode_and_random_stream_are_restored(new_model, ragged):
    model = new_model(dropout=0.5)
    state = torch.get_rng_state()
    for training in (True, False):
        model.train(training)
        assert split_loss(model, ragged) == split_loss(model, ragged)
        assert model.training is training
    assert torch.equal(torch.get_rng_state(), state)


def test_the_mode_is_restored_where_only_the_first_losses_are_taken(new_model, ragged):
    model = new_model().train()
    next(target_losses(model, ragged))
    assert model.training


def test_bfloat16_is_near_float32(new_model, ragged):
    model = new_model()
    exact, _ = split_loss(model, ragged)
    low, _ = split_loss(model, ragged, "bf16")
    assert exact != low
    assert low == pytest.approx(exact, rel=0.02)


def test_a_split_without_a_target_is_refused(new_model):
    with pytest.raises(InputError):
        split_loss(new_model(), [])


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


@pytest.mark.parametrize(
    ("patience", "losses", "ends_at"),
    [(2, [5.0, 4.0, 4.5, 3.0, 3.0, 3.5], 50), (None, [1.0] + [2.0] * 50, None)],
)
def test_patience_runs_out_after_validations_in_a_row_without_a_better_one(
    patience, losses, ends_at
):
    """Validations at odd updates, the ends of epochs, do not count."""
    held_out = []
    ends = []
    for number, loss in enumerate(losses):
        held_out += [(10 * number, 0, loss), (10 * number + 1, 0, 9.0)]
        if out_of_patience(held_out, patience, validate_every=10):
            ends.append(10 * number)
    assert ends == ([] if ends_at is None else [ends_at])
