"""The norm with its backward pass by hand."""

import pytest
import torch

from tinylm.kernels.train.ops import ManualGradOps
from tinylm.model.transformer import Norm


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
