import pytest
import torch

from tinylm.base.config import InputError
from tinylm.model.loss import cross_entropy
from tinylm.train.split_loss import split_loss


def test_the_loss_of_a_split_is_the_sum_over_its_targets(new_model, ragged):
    model = new_model().double()
    nats, tokens = split_loss(model, ragged)
    logits = [model(batch.inputs).flatten(0, 1) for batch in ragged]
    wanted = sum(cross_entropy(z, b.targets.flatten()) for z, b in zip(logits, ragged, strict=True))
    assert tokens == 8 + 18 + 2 + 11
    assert nats == pytest.approx(wanted.item(), rel=1e-12)
    together = sum(
        float(
            -z.detach()
            .log_softmax(-1)[range(len(z)), b.targets.flatten()][b.targets.flatten() >= 0]
            .sum()
        )
        for z, b in zip(logits, ragged, strict=True)
    )
    assert nats == pytest.approx(together, rel=1e-12)


def test_dropout_is_off_and_the_mode_restored(new_model, ragged):
    model = new_model(dropout=0.5)
    state = torch.get_rng_state()
    for training in (True, False):
        model.train(training)
        assert split_loss(model, ragged) == split_loss(model, ragged)
        assert model.training is training
    assert torch.equal(torch.get_rng_state(), state)  # a validation moves no random stream


def test_no_graph_is_kept(new_model, ragged):
    model = new_model()
    split_loss(model, ragged)
    assert all(p.grad is None for p in model.parameters())


def test_bfloat16_is_near_float32(new_model, ragged):
    model = new_model()
    exact, low = split_loss(model, ragged)[0], split_loss(model, ragged, "bf16")[0]
    assert exact != low
    assert low == pytest.approx(exact, rel=0.02)


def test_a_split_without_a_target_is_refused(new_model):
    with pytest.raises(InputError, match="no token to score"):
        split_loss(new_model(), [])
