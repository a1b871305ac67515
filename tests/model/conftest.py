from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.support.small import random_model
from tinylm.model.transformer import TinyLM

VOCAB, WIDTH = 31, 19  # primes, all different, so that a swapped axis fails


@pytest.fixture
def new_model() -> Callable[..., TinyLM]:
    """A small model; all parameters random, so that a forgotten gain or bias shows."""

    def make(vocab: int = VOCAB, width: int = WIDTH, **settings: Any) -> TinyLM:
        return random_model(vocab, width, **settings).double()

    return make


@pytest.fixture
def ids() -> torch.Tensor:
    """(B, T) = (5, 13), no padding."""
    return torch.randint(4, VOCAB, (5, 13), generator=torch.Generator().manual_seed(11))
