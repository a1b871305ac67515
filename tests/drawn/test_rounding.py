"""The bounds that drawn runs are judged by: they hold for torch's attention, and an error of the formula exceeds them."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.drawn.rounding import FP32, ShakenModel, exactly
from tinylm.kernels.train.attention import torch_attention


def of_attention(mixed: Tensor, parts: list[Tensor], incoming: Tensor) -> list[Tensor]:
    """The output, and the gradients of queries, keys and values.  (B, H, T, Dh) each"""
    return [mixed, *torch.autograd.grad((mixed * incoming).sum(), parts)]


def is_within(found: list[Tensor], bounds: list) -> list[bool]:
    return [
        float((one.detach().double() - exact.value).norm()) <= exact.bound
        for one, exact in zip(found, bounds, strict=True)
    ]


@given(
    number=st.integers(0, 2**32 - 1),
    length=st.integers(2, 40),
    width=st.sampled_from([1, 4, 11, 16]),
    score=st.floats(0.01, 300),
)
@settings(max_examples=40, deadline=None)
def test_torchs_attention_is_as_far_from_float64_as_its_formula_allows(
    number, length, width, score
):
    """score: how large scores are, about; with a high learning rate, they reach hundreds.

    A scale that is wrong by a thousandth exceeds the bound.
    """
    generator = torch.Generator().manual_seed(number)
    qkv = torch.randn(1, length, 3, 2, width, generator=generator)
    qkv[:, :, 0] *= score / width**0.5
    incoming = torch.randn(1, 2, length, width, generator=generator)
    parts = dict(zip("qkv", qkv.permute(2, 0, 3, 1, 4), strict=True))

    def compute(plain: ShakenModel) -> list[Tensor]:
        weights = [plain.weights[name].requires_grad_() for name in "qkv"]
        return of_attention(plain.shaken(plain.mix(*weights)), weights, incoming.double())

    def found(scale: float) -> list[Tensor]:
        inputs = qkv.clone().requires_grad_()
        mixed = torch_attention(inputs, scale, dropout=0.0)
        results = of_attention(mixed.unflatten(-1, (2, width)).transpose(1, 2), [inputs], incoming)
        return [results[0], *results[1].permute(2, 0, 3, 1, 4)]

    bounds = exactly(compute, lambda: ShakenModel(parts, {}, is_fused=True), FP32)
    assert is_within(found(1.0), bounds) == [True] * 4
    if length > 8 and 0.3 < score < 3:  # a softmax of large scores hardly changes with them
        assert not all(is_within(found(1.001), bounds))
