import itertools
import math

import pytest
import torch
from torch.nn import functional as F

from tinylm.kernels.train import output_loss as module
from tinylm.kernels.train.output_loss import output_loss
from tinylm.model import loss as plain_module
from tinylm.model.loss import cross_entropy

PAD, V, D = -1, 29, 7


def example(rows: int, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    hidden = torch.randn(rows, D, dtype=dtype, requires_grad=True)
    weight = torch.randn(V, D, dtype=dtype, requires_grad=True)
    bias = torch.randn(V, dtype=dtype, requires_grad=True)
    targets = torch.randint(0, V, (rows,))
    targets[::5] = PAD
    return hidden, weight, bias, targets


def plain(hidden, weight, bias, targets):
    return F.cross_entropy(
        F.linear(hidden, weight, bias), targets, ignore_index=PAD, reduction="sum"
    )


def test_cross_entropy_matches_torch():
    logits = torch.randn(53, V, dtype=torch.float64) * 5
    targets = torch.randint(0, V, (53,))
    targets[::7] = PAD
    ours = cross_entropy(logits.requires_grad_(), targets)
    (gradient,) = torch.autograd.grad(ours, logits)
    theirs = F.cross_entropy(logits, targets, ignore_index=PAD, reduction="sum")
    torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=0)
    torch.testing.assert_close(
        gradient, torch.autograd.grad(theirs, logits)[0], rtol=1e-12, atol=1e-14
    )


def test_cross_entropy_of_a_fair_choice_is_the_logarithm_of_its_size():
    assert cross_entropy(torch.zeros(3, V), torch.tensor([0, 1, PAD])).item() == pytest.approx(
        2 * math.log(V)
    )


def test_every_negative_target_is_passed_over():
    logits, targets = torch.randn(4, V), torch.tensor([3, -1, -100, V - 1])
    assert cross_entropy(logits, targets) == cross_entropy(logits[[0, 3]], targets[[0, 3]])
    hidden, weight, bias, _ = example(4)
    loss = output_loss(hidden, weight, bias, targets)
    torch.testing.assert_close(loss, output_loss(hidden[[0, 3]], weight, bias, targets[[0, 3]]))
    loss.backward()
    assert hidden.grad[[1, 2]].eq(0).all()


def test_cross_entropy_of_low_precision_logits_is_computed_in_float32():
    logits = torch.randn(7, V).bfloat16()
    targets = torch.randint(0, V, (7,))
    assert torch.equal(cross_entropy(logits, targets), cross_entropy(logits.float(), targets))


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("rows", [1, 12, 13, 14, 26, 40])  # around borders of chunks of 13
def test_output_loss_matches_torch(monkeypatch, rows, with_bias):
    monkeypatch.setattr(module, "CHUNK_ROWS", 13)
    monkeypatch.setattr(plain_module, "CHUNK_ROWS", 13)
    hidden, weight, bias, targets = example(rows)
    targets[0] = 5
    bias = bias if with_bias else None
    inputs = [t for t in (hidden, weight, bias) if t is not None]
    ours, theirs = output_loss(hidden, weight, bias, targets), plain(hidden, weight, bias, targets)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)
    for one, other in zip(
        torch.autograd.grad(ours * 3, inputs), torch.autograd.grad(theirs * 3, inputs), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(
            output_loss(hidden, weight, bias, targets), theirs, rtol=1e-12, atol=0
        )


@pytest.mark.parametrize("trained", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_frozen_inputs_get_no_gradient_and_change_no_other(trained):
    full = example(17)
    inputs = [t.detach().requires_grad_(i in trained) for i, t in enumerate(full[:3])]
    output_loss(*inputs, full[3]).backward()
    reference = torch.autograd.grad(plain(*full), full[:3])
    for i, tensor in enumerate(inputs):
        if i in trained:
            torch.testing.assert_close(tensor.grad, reference[i], rtol=1e-11, atol=1e-12)
        else:
            assert tensor.grad is None


def test_padding_alone_costs_nothing_and_moves_nothing():
    hidden, weight, bias, _ = example(9)
    loss = output_loss(hidden, weight, bias, torch.full((9,), PAD))
    loss.backward()
    assert loss.item() == 0
    assert all(t.grad.eq(0).all() for t in (hidden, weight, bias))


@pytest.mark.parametrize("grad", [True, False])
def test_logits_of_ten_thousand_do_not_overflow(grad):
    hidden = torch.full((3, 1), 1e4, requires_grad=grad)
    weight = torch.tensor([[1.0], [-1.0], [0.0], [0.5]])
    loss = output_loss(hidden, weight, None, torch.tensor([0, 1, 3]))
    assert loss.item() == pytest.approx(0 + 2e4 + 5e3)
    if grad:
        loss.backward()
        torch.testing.assert_close(hidden.grad, torch.tensor([[0.0], [2.0], [0.5]]))


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("frozen", [(), (1,), (2,), (1, 2)], ids=str)
def test_bfloat16_stays_close_to_float32_and_sums_in_float32(monkeypatch, padded, frozen):
    """Over several chunks, whatever is frozen, with a gradient from above that is not 1."""
    monkeypatch.setattr(module, "LOW_CHUNK_ROWS", 500)
    inputs = example(1400, torch.float32)
    if not padded:
        inputs[3].clamp_(min=0)
    for number in frozen:
        inputs[number].requires_grad_(False)
    learns = [tensor for tensor in inputs[:3] if tensor.requires_grad]
    expected = plain(*inputs)
    with torch.autocast("cpu", torch.bfloat16):
        loss = output_loss(*inputs)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=5e-3)
    found = torch.autograd.grad(3 * loss, learns)
    for one, other in zip(found, torch.autograd.grad(3 * expected, learns), strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() < 0.02 * other.norm()


def test_a_second_backward_pass_is_refused():
    hidden, weight, _, targets = example(9)
    loss = output_loss(hidden, weight, None, targets)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_one_chunk_of_logits_at_most_is_alive(precision):
    chunk = module.LOW_CHUNK_ROWS if precision == "bf16" else module.CHUNK_ROWS
    rows, words = 4 * chunk, 9000
    hidden, weight = (
        torch.randn(rows, 64, requires_grad=True),
        torch.randn(words, 64, requires_grad=True),
    )
    low = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16")
    with torch.autograd.profiler.profile(profile_memory=True) as profiler, low:
        output_loss(hidden, weight, None, torch.randint(0, words, (rows,)))
    sizes = [
        event.nbytes() for event in profiler.kineto_results.events() if event.name() == "[memory]"
    ]
    one = chunk * words * (2 if precision == "bf16" else 4)
    most = 3.0 if precision == "bf16" else 2.0  # the softmax is in float32, a few rows at a time
    assert max(itertools.accumulate(sizes)) < most * one
