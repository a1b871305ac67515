"""What the weights of a model start from."""

import math

import pytest
import torch
from torch import nn

from tests.support.pairs import pairs
from tinylm.model.transformer import TinyLM

SHAPE = {
    "layers": 8,
    "heads": 4,
    "feed_forward": 256,
    "context": 97,
    "positions": "learned",
    "output_bias": True,
}
VOCAB, WIDTH = 499, 64


def made(new_settings, tied: bool = False, **changes) -> TinyLM:
    torch.manual_seed(3)
    return TinyLM(new_settings(**SHAPE, tied_output=tied, **changes), torch.randn(VOCAB, WIDTH))


def uniform(values: torch.Tensor, bound: float) -> bool:
    """Within the bound, almost up to it, with mean and deviation of a uniform draw."""
    few = values.numel() < 1000
    largest, mean, std = values.abs().max().item(), values.mean().item(), values.std().item()
    return (
        (0.8 if few else 0.98) * bound < largest <= bound
        and abs(mean) < bound * (0.3 if few else 0.05)
        and std == pytest.approx(bound / 3**0.5, rel=0.3 if few else 0.03)
    )


def test_scaled_weights_start_at_the_stated_sizes(new_settings):
    for name, parameter in made(new_settings, init="scaled").named_parameters():
        if name.endswith("bias"):
            assert parameter.eq(0).all()
        elif name.endswith("gain"):
            assert parameter.eq(1).all()
        elif name != "embedding":
            wanted = 0.5**0.5 if name == "positions" else parameter.shape[1] ** -0.5
            if name.endswith(("attention.out.weight", "down.weight")):
                wanted /= (
                    4.0  # sqrt(2 N): the 16 branches that add to the residual stream keep its size
                )
            assert parameter.std().item() == pytest.approx(wanted, rel=0.05), name


def test_xavier_weights_are_uniform_by_both_fans(new_settings):
    for name, parameter in made(new_settings, init="xavier").named_parameters():
        if name.endswith("bias"):
            assert parameter.eq(0).all()
        elif parameter.dim() == 2 and name != "embedding":
            for matrix in parameter.chunk(
                3 if "qkv" in name else 1
            ):  # query, key and value are a matrix each
                theirs = nn.init.xavier_uniform_(torch.empty(matrix.shape))
                assert uniform(matrix, math.sqrt(6 / sum(matrix.shape))), name
                assert matrix.std().item() == pytest.approx(theirs.std().item(), rel=0.05)


def test_torchs_weights_are_those_of_its_layers(new_settings):
    for tied in (True, False):
        for name, parameter in made(new_settings, tied, init="torch").named_parameters():
            if name.endswith("gain"):
                assert parameter.eq(1).all()
            elif "norm" in name:
                assert parameter.eq(0).all()
            elif name == "positions":
                assert parameter.std().item() == pytest.approx(1.0, rel=0.05)
            elif name != "embedding":
                fan_in = 256 if ".down." in name else WIDTH
                assert uniform(parameter, fan_in**-0.5), name


@pytest.mark.parametrize("init", ["scaled", "xavier", "torch"])
def test_the_given_vectors_are_kept(new_settings, init):
    torch.manual_seed(3)
    assert torch.equal(
        made(new_settings, init=init).embedding, torch.manual_seed(3) and torch.randn(VOCAB, WIDTH)
    )


@pytest.mark.parametrize("init", ["scaled", "xavier", "torch"])
def test_equal_seeds_give_equal_weights(new_settings, init):
    one, other = (made(new_settings, init=init) for _ in "ab")
    assert all(map(torch.equal, one.parameters(), other.parameters()))


def first_loss(settings, spread: float = 1.0, vocab: int = 997, width: int = 64) -> float:
    """Nats a token, mean over all words as the target."""
    torch.manual_seed(3)
    model = TinyLM(settings, torch.randn(vocab, width) * spread).eval()
    with torch.no_grad():
        logits = model(torch.randint(0, vocab, (7, 33)))
    return (logits.logsumexp(-1) - logits.mean(-1)).mean().item()


@pytest.mark.parametrize(
    ("norm", "tied", "spread"), pairs(["pre", "post"], [True, False], [1e-3, 1.0, 30.0])
)
def test_the_first_loss_is_close_to_that_of_guessing(new_settings, norm, tied, spread):
    shape = {"layers": 3, "heads": 4, "feed_forward": 128, "context": 33}
    settings = new_settings(**shape, norm=norm, final_norm=norm == "pre", tied_output=tied)
    assert math.log(997) - 0.3 < first_loss(settings, spread) < math.log(997) + 1.0


def test_the_first_loss_of_torchs_weights_is_a_sixth_of_a_nat_above_guessing(new_settings):
    """Logits of a normed state under an untied layer uniform within 1 / sqrt(D) have variance 1/3: ln V + 1/6."""
    shape = {
        "layers": 6,
        "heads": 8,
        "feed_forward": 256,
        "context": 64,
        "norm": "post",
        "activation": "relu",
    }
    settings = new_settings(
        **shape, init="torch", qkv_bias=False, tied_output=False, output_bias=True
    )
    assert first_loss(settings) == pytest.approx(math.log(997) + 1 / 6, abs=0.02)
    xavier = new_settings(
        **shape, init="xavier", qkv_bias=False, tied_output=False, output_bias=True
    )
    variance = 64 * (6 / (997 + 64)) / 3
    assert first_loss(xavier) == pytest.approx(math.log(997) + variance / 2, abs=0.01)
