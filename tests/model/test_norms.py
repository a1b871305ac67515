import pytest
import torch
from torch import nn

from tinylm.model.norms import LayerNorm


@pytest.mark.parametrize("shape", [(7,), (5, 7), (3, 5, 7), (2, 3, 5, 7)])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e4])
def test_layer_norm_matches_torch(shape, scale):
    ours, theirs = LayerNorm(7).double(), nn.LayerNorm(7).double()
    with torch.no_grad():
        theirs.weight.copy_(ours.gain.copy_(torch.randn(7)))
        theirs.bias.copy_(ours.bias.copy_(torch.randn(7)))
    x = (torch.randn(shape, dtype=torch.float64) * scale + 3.0).requires_grad_()
    y = x.detach().clone().requires_grad_()
    weights = torch.randn(shape, dtype=torch.float64)
    one, other = ours(x), theirs(y)
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    (one * weights).sum().backward()
    (other * weights).sum().backward()
    for mine, reference in [(x.grad, y.grad), (ours.gain.grad, theirs.weight.grad), (ours.bias.grad, theirs.bias.grad)]:
        torch.testing.assert_close(mine, reference, rtol=1e-10, atol=1e-10)


def test_gradients_of_the_norm_match_finite_differences():
    norm = LayerNorm(5).double()
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    gain = torch.randn(5, dtype=torch.float64, requires_grad=True)

    def call(x, gain):
        return torch.func.functional_call(norm, {"gain": gain, "bias": norm.bias}, (x,))

    assert torch.autograd.gradcheck(call, (x, gain))


def test_a_constant_row_gives_the_bias_and_a_finite_gradient():
    norm = LayerNorm(7)
    with torch.no_grad():
        norm.bias.copy_(torch.arange(7.0))
    x = torch.full((2, 7), 5.0, requires_grad=True)
    y = norm(x)
    y.square().sum().backward()
    assert torch.equal(y[0], torch.arange(7.0))
    assert torch.isfinite(x.grad).all()


def test_the_norm_keeps_its_parameters_precision_for_a_lower_input():
    assert LayerNorm(7)(torch.randn(3, 7, dtype=torch.bfloat16)).dtype == torch.float32
