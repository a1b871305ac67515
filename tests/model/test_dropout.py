import pytest
import torch
from torch import nn

from tinylm.model.dropout import Dropout, kept


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_fast_draws_drop_the_share_that_is_asked_and_keep_the_mean(probability, dtype):
    torch.manual_seed(5)
    like = torch.empty(1000, 300, dtype=dtype)
    mask, factor = kept(like, probability)
    assert (mask.shape, mask.dtype, set(mask.unique().tolist())) == (like.shape, dtype, {0.0, 1.0})
    assert factor == pytest.approx(1.0 / (1.0 - probability), rel=1e-4)
    deviation = (probability * (1.0 - probability) / mask.numel()) ** 0.5
    assert abs(mask.double().mean().item() - (1.0 - probability)) < 5 * deviation + 1e-5


def test_fast_draws_follow_torchs_generator_and_depend_on_nothing_of_their_neighbours():
    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(kept(torch.empty(400, 500), 0.5)[0])
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])
    assert not torch.equal(masks[0], kept(torch.empty(400, 500), 0.5)[0])  # the next draw is another
    for other in (masks[0].roll(1, 0), masks[0].roll(1, 1), masks[0].roll(4, 1), masks[2]):
        assert abs((masks[0] == other).double().mean().item() - 0.5) < 5 * 0.5 / masks[0].numel() ** 0.5


@pytest.mark.parametrize("low", [False, True])
def test_what_is_kept_is_scaled_forward_and_backward_alike(low):
    torch.manual_seed(3)
    x = torch.rand(300, 70) + 1.0
    x.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        y = Dropout(0.25).train()(x)
    y.sum().backward()
    dropped = y == 0
    assert 0.2 < dropped.double().mean().item() < 0.3
    torch.testing.assert_close(y[~dropped], x[~dropped] / 0.75)
    torch.testing.assert_close(x.grad, torch.where(dropped, 0.0, 1 / 0.75))


@pytest.mark.parametrize("low", [False, True])
def test_nothing_is_dropped_in_evaluation_or_at_probability_zero(low):
    x = torch.rand(30, 7)
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        assert Dropout(0.5).eval()(x) is x
        assert Dropout(0.0).train()(x) is x


def test_matches_torch():
    x = torch.rand(300, 70, dtype=torch.float64)
    torch.manual_seed(3)
    ours = Dropout(0.25).train()(x)
    torch.manual_seed(3)
    assert torch.equal(ours, nn.Dropout(0.25).train()(x))
