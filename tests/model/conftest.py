from collections.abc import Callable
from typing import Any

import pytest
import torch

from tinylm.model.attention import SelfAttention, head_widths
from tinylm.model.lm import ModelSettings, TinyLM

VOCAB, WIDTH = 31, 19  # primes, all different, so that a swapped axis fails
SMALL = {
    "layers": 2,
    "heads": 3,
    "head_width": None,
    "feed_forward": 23,
    "context": 17,
    "dropout": 0.0,
    "norm": "pre",
    "norm_kind": "layer",
    "norm_eps": 1e-5,
    "final_norm": True,
    "positions": "sinusoids",
    "activation": "gelu",
    "init": "scaled",
    "qkv_bias": True,
    "attention_bias": True,
    "feed_forward_bias": True,
    "tied_output": True,
    "output_bias": False,
    "embedding": "tuned",
}


def in_float64(module: torch.nn.Module) -> Any:
    """The module in float64, with the heads' scales as exact as that allows."""
    module.double()
    for part in module.modules():
        if isinstance(part, SelfAttention):
            widths = torch.tensor(head_widths(part.inner, part.heads), dtype=torch.float64)
            assert torch.allclose(part.scale[:, 0, 0], widths.rsqrt(), rtol=1e-6, atol=0)
            part.scale = widths.rsqrt()[:, None, None]
    return module


@pytest.fixture
def exact() -> Callable[[torch.nn.Module], Any]:
    return in_float64


@pytest.fixture
def new_settings() -> Callable[..., ModelSettings]:
    """Settings of a small model with some of them changed."""
    return lambda **changes: ModelSettings(**(SMALL | changes))


@pytest.fixture
def new_model() -> Callable[..., TinyLM]:
    """A small model; all parameters random, so that a forgotten gain or bias shows."""

    def make(vocab: int = VOCAB, width: int = WIDTH, **settings: Any) -> TinyLM:
        generator = torch.Generator().manual_seed(7)
        model = TinyLM(ModelSettings(**(SMALL | settings)), torch.randn(vocab, width, generator=generator))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.dim() == 1:
                    start = 1.0 if name.endswith("gain") else 0.0
                    parameter.copy_(start + 0.3 * torch.randn(parameter.shape, generator=generator))
        return in_float64(model).eval()

    return make


@pytest.fixture
def ids() -> torch.Tensor:
    """(B, T) = (5, 13), no padding."""
    return torch.randint(4, VOCAB, (5, 13), generator=torch.Generator().manual_seed(11))
