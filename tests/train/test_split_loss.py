import pytest
import torch
from torch.nn import functional as F

from tinylm.base.config import InputError
from tinylm.train.validation import split_loss, target_losses


def test_the_loss_of_a_split_is_the_sum_over_its_targets(new_model, ragged):
    model = new_model().double()
    nats, tokens = split_loss(model, ragged)
    wanted = 0.0
    for batch in ragged:
        logits = model(batch.inputs).flatten(0, 1)
        targets = batch.targets.flatten()
        wanted += F.cross_entropy(logits, targets, ignore_index=-1, reduction="sum").item()
    assert tokens == 8 + 18 + 2 + 11
    assert nats == pytest.approx(wanted, rel=1e-12)


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
