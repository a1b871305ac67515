import pytest
import torch
from torch.nn import functional as F

from tinylm.kernels.train import output_loss as module
from tinylm.kernels.train.output_loss import output_loss
from tinylm.model import ops as plain_module

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


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("rows", [1, 12, 13, 14, 26, 40])  # around borders of chunks of 13
def test_output_loss_matches_torch(monkeypatch, rows, with_bias):
    monkeypatch.setattr(module, "LOGITS_BYTES", 13 * 8 * V)
    monkeypatch.setattr(module, "PART_ROWS", 13)
    monkeypatch.setattr(plain_module, "CHUNK_ROWS", 13)
    hidden, weight, bias, targets = example(rows)
    targets[0] = 5
    bias = bias if with_bias else None
    inputs = [t for t in (hidden, weight, bias) if t is not None]
    ours = output_loss(hidden, weight, bias, targets)
    theirs = plain(hidden, weight, bias, targets)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)
    gradients = torch.autograd.grad(ours * 3, inputs)
    wanted = torch.autograd.grad(theirs * 3, inputs)
    torch.testing.assert_close(gradients, wanted, rtol=1e-11, atol=1e-12)
    with torch.no_grad():
        assert output_loss(hidden, weight, bias, targets).item() == pytest.approx(theirs.item())


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("frozen", [(), (1,), (2,), (1, 2)], ids=str)
def test_bfloat16_stays_close_to_float32_and_sums_in_float32(monkeypatch, padded, frozen):
    """Over several chunks, whatever is frozen, with a gradient from above that is not 1."""
    inputs = example(1400, torch.float32)
    monkeypatch.setattr(module, "LOGITS_BYTES", 500 * 2 * len(inputs[1]))
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
    gradients = torch.autograd.grad(3 * loss, learns)
    wanted = torch.autograd.grad(3 * expected, learns)
    for one, other in zip(gradients, wanted, strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() < 0.02 * other.norm()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_batch_without_a_scored_row_has_no_loss_and_no_gradient(precision):
    hidden, weight, bias, targets = example(9, torch.float32)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        loss = output_loss(hidden, weight, bias, torch.full_like(targets, PAD))
    loss.backward()
    assert loss == 0
    assert all(tensor.grad.eq(0).all() for tensor in (hidden, weight, bias))
