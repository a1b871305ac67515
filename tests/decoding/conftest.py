"""A tiny random model whose next-token distributions are peaky: vocabulary 31, context 13, width 20, 3 heads."""

from collections.abc import Callable

import pytest
import torch

from tests.support.small import DECODE, model_settings
from tinylm.decoding.decoder import Decoder
from tinylm.decoding.settings import DecodeSettings
from tinylm.model.transformer import TinyLM

SOS, EOS, PAD, UNK = 0, 1, 2, 3
BANNED = [SOS, PAD, UNK]
VOCAB, CONTEXT = 31, 13


def decoder_of(model: TinyLM, **changes) -> Decoder:
    return Decoder(**{"model": model, "eos_id": EOS, "banned": BANNED, **changes})


@pytest.fixture(scope="session")
def make_model() -> Callable[..., TinyLM]:
    def make(
        seed: int = 1, dtype: torch.dtype = torch.float64, gain: float = 3.0, end: float = 1.0
    ) -> TinyLM:
        torch.manual_seed(seed)
        shape = model_settings(context=CONTEXT, dropout=0.3, tied_output=False)
        model = TinyLM(shape, torch.randn(VOCAB, 20))
        with torch.no_grad():
            model.final_norm.gain.mul_(gain)
            towards_end = model.output.weight[EOS] / model.output.weight[EOS].square().sum()
            model.final_norm.bias.add_(end * towards_end)  # <eos> scores `end` more
        return model.to(dtype).eval()

    return make


@pytest.fixture(scope="session")
def model(make_model) -> TinyLM:
    return make_model()


@pytest.fixture(scope="session")
def prompts() -> list[list[int]]:
    """Unequal lengths, one of a single token, one at the context, one past it."""
    numbers = torch.Generator().manual_seed(7)
    sizes = [0, 4, 2, CONTEXT - 1, 4, 17]
    return [[SOS, *torch.randint(4, VOCAB, (size,), generator=numbers).tolist()] for size in sizes]


@pytest.fixture(scope="session")
def settings() -> Callable[..., DecodeSettings]:
    def make(**changes) -> DecodeSettings:
        values = DECODE | {"temperature": 1.0, "seed": 11}
        return DecodeSettings(**{**values, **changes})

    return make
