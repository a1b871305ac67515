"""The loss over a split, early stopping and the learning rate."""

import pytest
import torch

from tinylm.train.trainer import learning_rate
from tinylm.train.validation import split_loss


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
