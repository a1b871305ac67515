"""The norm with its backward pass by hand."""

import pytest
import torch
from torch.nn import functional as F

from tinylm.kernels.train.ops import ManualGradOps
from tinylm.model.transformer import Norm


def reference(norm: Norm, x: torch.Tensor) -> torch.Tensor:
    """By torch's finished parts, or for std by composition, with the norm's parameters."""
    if norm.kind == "layer":
        return F.layer_norm(x, x.shape[-1:], norm.gain, norm.bias, norm.eps)
    if norm.kind == "rms":
        return F.rms_norm(x, x.shape[-1:], norm.gain, norm.eps)
    normed = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + norm.eps)
    return normed * norm.gain + norm.bias


@pytest.mark.parametrize("kind", ["layer", "rms", "std"])
@pytest.mark.parametrize(
    ("eps", "shape", "scale"),
    [(1e-8, (7,), 1.0), (1e-5, (5, 7), 1e-3), (0.3, (3, 5, 7), 1e4), (1e-8, (5, 7), 1e4)],
)
def test_norm_matches_torch(shape, scale, eps, kind):
    norm = Norm(7, kind, eps, ManualGradOps()).double().train()
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.copy_(torch.randn(7))
    x = (torch.randn(shape, dtype=torch.float64) * scale + 3.0 * scale).requires_grad_()
    weights = torch.randn(shape, dtype=torch.float64)
    inputs = [x, *norm.parameters()]
    ours = norm(x)
    theirs = reference(norm, x)
    assert torch.equal(ours, norm.eval()(x))  # the plain one computes the same bits
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)
    gradients = [torch.autograd.grad((y * weights).sum(), inputs) for y in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", ["layer", "std"])
def test_a_constant_row_gives_the_bias_and_a_finite_gradient(kind):
    norm = Norm(7, kind, 1e-5, ManualGradOps()).train()
    with torch.no_grad():
        norm.bias.copy_(torch.arange(7.0))
    x = torch.full((2, 7), 5.0, requires_grad=True)
    y = norm(x)
    y.square().sum().backward()
    assert torch.equal(y[0], torch.arange(7.0))
    assert torch.isfinite(x.grad).all()
