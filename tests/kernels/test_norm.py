"""The norm, plain and with its backward pass by hand."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tinylm.kernels.train.ops import ManualGradOps
from tinylm.model.transformer import Norm as AnyNorm

KINDS = ["layer", "rms", "std"]


def Norm(width: int, kind: str = "layer", eps: float = 1e-5) -> AnyNorm:
    """In training mode, with gradients by hand."""
    return AnyNorm(width, kind, eps, ManualGradOps()).train()


def reference(norm: AnyNorm, x: torch.Tensor) -> torch.Tensor:
    """The same by torch's finished parts, or for std by composition, with the norm's own parameters."""
    if norm.kind == "layer":
        return F.layer_norm(x, x.shape[-1:], norm.gain, norm.bias, norm.eps)
    if norm.kind == "rms":
        return F.rms_norm(x, x.shape[-1:], norm.gain, norm.eps)
    return (x - x.mean(-1, keepdim=True)) / (
        x.std(-1, keepdim=True) + norm.eps
    ) * norm.gain + norm.bias


def perturbed(kind: str, eps: float = 1e-5) -> AnyNorm:
    norm = Norm(7, kind, eps).double()
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.copy_(torch.randn(7))
    return norm


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("eps", "shape", "scale"),
    [
        (1e-8, (7,), 1.0),
        (1e-5, (5, 7), 1e-3),
        (0.3, (3, 5, 7), 1e4),
        (1e-5, (2, 3, 5, 7), 1.0),
        (1e-8, (5, 7), 1e4),
    ],
)
def test_norm_matches_torch(shape, scale, eps, kind):
    norm = perturbed(kind, eps)
    x = (torch.randn(shape, dtype=torch.float64) * scale + 3.0 * scale).requires_grad_()
    weights = torch.randn(shape, dtype=torch.float64)
    inputs = [x, *norm.parameters()]
    one, other = norm(x), reference(norm, x)
    assert torch.equal(one, norm.eval()(x))  # the plain one computes the same bits
    torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)
    gradients = [torch.autograd.grad((y * weights).sum(), inputs) for y in (one, other)]
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("theirs", [nn.LayerNorm(7, 1e-4), nn.RMSNorm(7, 1e-4)])
def test_norms_start_as_torchs_modules(theirs):
    ours = Norm(7, "layer" if isinstance(theirs, nn.LayerNorm) else "rms", 1e-4)
    assert [p.shape for p in ours.parameters()] == [p.shape for p in theirs.parameters()]
    x = torch.randn(5, 7) * 1e-2
    torch.testing.assert_close(ours(x), theirs(x))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_the_norm_match_finite_differences(kind):
    norm = Norm(5, kind, 0.1).double()
    names = [name for name, _ in norm.named_parameters()]
    assert names == (["gain"] if kind == "rms" else ["gain", "bias"])
    inputs = [
        torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for shape in [(3, 5), *[(5,)] * len(names)]
    ]

    def call(x, *parameters):
        return torch.func.functional_call(norm, dict(zip(names, parameters, strict=True)), (x,))

    assert torch.autograd.gradcheck(call, inputs)


@pytest.mark.parametrize("kind", ["layer", "std"])
def test_a_constant_row_gives_the_bias_and_a_finite_gradient(kind):
    norm = Norm(7, kind)
    with torch.no_grad():
        norm.bias.copy_(torch.arange(7.0))
    x = torch.full((2, 7), 5.0, requires_grad=True)
    y = norm(x)
    y.square().sum().backward()
    assert torch.equal(y[0], torch.arange(7.0))
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_zeros_stays_finite_at_the_least_eps(kind):
    norm = Norm(7, kind, 1e-8)
    x = torch.zeros(2, 7, requires_grad=True)
    y = norm(x)
    (y * torch.randn(2, 7)).sum().backward()
    assert y.eq(0).all()
    assert torch.isfinite(x.grad).all()


def test_the_input_is_left_as_it_was():
    for kind in KINDS:
        x = torch.randn(3, 7)
        before = x.clone()
        Norm(7, kind)(x)
        assert torch.equal(x, before)


@pytest.mark.parametrize("kind", KINDS)
def test_the_norm_keeps_its_parameters_precision_for_a_lower_input(kind):
    assert Norm(7, kind)(torch.randn(3, 7, dtype=torch.bfloat16)).dtype == torch.float32


@pytest.mark.parametrize("kind", KINDS)
def test_one_tensor_of_the_inputs_size_is_kept(kind):
    kept = []
    norm, x = Norm(7, kind), torch.randn(11, 7, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        norm(x)
    assert kept.count((11, 7)) == 1
    assert sum(shape.numel() for shape in kept) <= 11 * 7 + 2 * 11 + 7


def test_a_lower_input_is_computed_on_in_the_parameters_precision():
    x = torch.randn(3, 7, dtype=torch.bfloat16)
    for kind in KINDS:
        assert torch.equal(Norm(7, kind)(x), Norm(7, kind)(x.float()))


def test_a_layer_norm_with_the_usual_eps_is_the_default():
    x = torch.randn(5, 7) * 1e-2
    assert torch.equal(Norm(7)(x), Norm(7, "layer", 1e-5)(x))
    assert (Norm(7).kind, Norm(7).eps) == ("layer", 1e-5)
    torch.testing.assert_close(Norm(7)(x), F.layer_norm(x, (7,), eps=1e-5))
