"""The blocks' low-precision path against the plain one: each piece in float64, the whole in bfloat16."""

import pytest
import torch
from torch.nn import functional as F

from tests.small import random_model
from tinylm.kernels.training.attention_core import AttentionCore
from tinylm.kernels.training.low_blocks import GELU, RELU, LowFeedForward, add_dropped
from tinylm.model.attention import SelfAttention, causal_mask
from tinylm.model.dropout import kept
from tinylm.model.norms import Norm

B, T, H, WIDTH = 3, 11, 2, 5


def same_gradients(ours, plain, *inputs: torch.Tensor) -> None:
    """Both functions of the inputs give the same and have the same gradients, in float64."""
    results = []
    for function in (ours, plain):
        own = [x.detach().clone().requires_grad_() for x in inputs]
        torch.manual_seed(5)
        y = function(*own)
        y.backward(torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view(y.shape))
        results.append([y, *(x.grad for x in own)])
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("probability", [0.0, 0.3])
def test_the_core_of_attention_matches_the_plain_path(probability):
    mask = causal_mask(torch.arange(T)[None], torch.arange(T), torch.float64)
    scale = torch.tensor([0.4, 0.7], dtype=torch.float64)[:, None, None]

    def plain(joined):
        queries, keys, values = joined.permute(2, 0, 3, 1, 4)
        weights = torch.softmax(queries * scale @ keys.mT + mask, -1)
        if probability:
            chosen, factor = kept(weights, probability)
            assert 0 < chosen.mean() < 1
            weights = weights * chosen * factor
        return (weights @ values).transpose(1, 2).flatten(2)

    joined = torch.randn(B, T, 3, H, WIDTH, dtype=torch.float64)
    same_gradients(lambda x: AttentionCore.apply(x, scale, mask, probability), plain, joined)


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_the_low_feed_forward_matches_the_plain_path(relu, bias):
    sizes = [(B, T, 7), (13, 7), (7, 13), (13,), (7,)]
    x, up, down, *biases = (torch.randn(size, dtype=torch.float64) for size in sizes)
    activation = F.relu if relu else F.gelu

    def split(found):
        return found if bias else (None, None)

    same_gradients(
        lambda x, up, down, *b: LowFeedForward.apply(x, up, split(b)[0], down, split(b)[1], RELU if relu else GELU),
        lambda x, up, down, *b: F.linear(activation(F.linear(x, up, split(b)[0])), down, split(b)[1]),
        *(x, up, down, *(biases if bias else ())),
    )


def test_a_sum_with_what_dropout_leaves_matches_the_plain_path():
    def plain(x, y):
        mask, factor = kept(y, 0.3)
        assert 0 < mask.mean() < 1
        return x + y * mask * factor

    same_gradients(lambda x, y: add_dropped(x, y, 0.3), plain, *torch.randn(2, B, T, 7, dtype=torch.float64))


def kept_bytes(function) -> list[tuple[torch.Size, int]]:
    found = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: found.append((t.shape, t.itemsize)) or t, lambda t: t):
        function()
    return found


def test_one_tensor_of_all_pairs_is_kept_and_one_byte_of_what_is_dropped():
    attention = SelfAttention(14, 2, None, 0.3, True, True).train()
    x, mask = torch.randn(B, T, 14, requires_grad=True), torch.zeros(1, 1, T, T)
    with torch.autocast("cpu", torch.bfloat16):
        found = kept_bytes(lambda: attention(x, mask))
        dropped = kept_bytes(lambda: add_dropped(x, x.bfloat16(), 0.3))
    assert [item for item in found if item[0][-2:] == (T, T) and item[0] != mask.shape] == [
        (torch.Size((B * 2, T, T)), 2)
    ]
    assert dropped == [(x.shape, 1)]


@pytest.mark.parametrize("kind", ["layer", "rms", "std"])
def test_a_narrow_norm_keeps_low_numbers_and_follows_the_plain_one(kind):
    norm, x = Norm(64, kind), torch.randn(B, T, 64, requires_grad=True)
    plain = norm(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert norm.eval()(x, narrow=True).dtype == torch.float32
        low = norm.train()(x, narrow=True)
        assert norm(x).dtype == torch.float32  # what the next sum reads
        assert (x.shape, 4) not in kept_bytes(lambda: norm(x, narrow=True))
    assert low.dtype == torch.bfloat16
    assert (low - plain).norm() < 0.01 * plain.norm()
    torch.manual_seed(17)
    toward = torch.randn_like(plain)
    (grad,) = torch.autograd.grad(low.float(), x, toward)
    (exact,) = torch.autograd.grad(norm.eval()(x), x, toward)
    assert (grad - exact).norm() < 0.01 * exact.norm()


@pytest.mark.parametrize(
    "settings",
    [{}, {"norm": "post", "heads": 4}, {"norm_kind": "rms", "activation": "relu", "feed_forward_bias": False}],
    ids=["pre", "post, ragged heads", "rms, relu"],
)
def test_gradients_in_bf16_stay_near_those_of_fp32(settings):
    model, found = random_model(31, 40, layers=3, **settings).train(), {}
    ids = torch.randint(4, 31, (5, 14), generator=torch.Generator().manual_seed(3))
    for low in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        found[low] = loss.detach(), torch.cat([p.grad.flatten() for p in model.parameters()])
    assert (found[True][0] - found[False][0]).abs() < 0.01 * found[False][0]
    assert 0 < (found[True][1] - found[False][1]).norm() < 0.02 * found[False][1].norm()
