"""What the weights of a model start from."""

import math

import pytest
import torch

from tests.support.small import model_settings, pairs
from tinylm.model.transformer import TinyLM

VOCAB, WIDTH, INNER, CONTEXT, LAYERS = 499, 64, 256, 97, 8


def fresh_model(init: str, **changes) -> TinyLM:
    """Untied by default, with every kind of parameter."""
    shape = {
        "layers": LAYERS,
        "heads": 4,
        "head_width": None,
        "feed_forward": INNER,
        "context": CONTEXT,
    }
    kinds = {"positions": "learned", "output_bias": True, "tied_output": False}
    torch.manual_seed(3)
    embedding = torch.randn(VOCAB, WIDTH)
    model = TinyLM(model_settings(**shape, **kinds | changes, init=init), embedding.clone())
    assert torch.equal(model.embedding, embedding)  # the given vectors stay
    return model


def is_uniform(values: torch.Tensor, bound: float) -> bool:
    """Within the bound, almost up to it, with the deviation of a uniform draw."""
    few = values.numel() < 1000
    lowest = (0.8 if few else 0.98) * bound
    std = pytest.approx(bound / 3**0.5, rel=0.3 if few else 0.03)
    return lowest < values.abs().max().item() <= bound and values.std().item() == std


def test_scaled_weights_are_normal_by_fan_in_and_depth():
    residual_ends = ("attention.out.weight", "feed_forward.down.weight")
    for name, parameter in fresh_model("scaled").named_parameters():
        if name.endswith("bias"):
            assert parameter.eq(0).all(), name
        elif parameter.dim() == 2 and name != "embedding":
            std = parameter.shape[1] ** -0.5
            if name.endswith(residual_ends):
                std /= math.sqrt(2 * LAYERS)
            if name == "positions":
                std = math.sqrt(0.5)  # of sinusoids
            assert parameter.std().item() == pytest.approx(std, rel=0.03), name
            assert parameter.abs().max() > 3 * std, f"{name} is not normal"


def test_xavier_weights_are_uniform_by_both_fans():
    for name, parameter in fresh_model("xavier").named_parameters():
        if name.endswith("bias"):
            assert parameter.eq(0).all()
        elif parameter.dim() == 2 and name != "embedding":
            # query, key and value are a matrix each
            for matrix in parameter.chunk(3 if "qkv" in name else 1):
                assert is_uniform(matrix, math.sqrt(6 / sum(matrix.shape))), name


@pytest.mark.parametrize("tied", [True, False])
def test_torchs_weights_are_those_of_its_layers(tied):
    for name, parameter in fresh_model("torch", tied_output=tied).named_parameters():
        if "norm" in name:
            assert parameter.eq(1.0 if name.endswith("gain") else 0.0).all()
        elif name == "positions":
            assert parameter.std().item() == pytest.approx(1.0, rel=0.05)
        elif name != "embedding":
            fan_in = INNER if ".down." in name else WIDTH
            assert is_uniform(parameter, fan_in**-0.5), name


@pytest.mark.parametrize(
    ("norm", "tied", "spread"), pairs(["pre", "post"], [True, False], [1e-3, 1.0, 30.0])
)
def test_the_first_loss_is_close_to_that_of_guessing(norm, tied, spread):
    """Mean over all words as the target; input vectors of any size enter at unit mean square."""
    shape = {"layers": 3, "heads": 4, "feed_forward": 128, "context": 33}
    settings = model_settings(**shape, norm=norm, final_norm=norm == "pre", tied_output=tied)
    torch.manual_seed(3)
    model = TinyLM(settings, torch.randn(997, 64) * spread).eval()
    entering = model.embedding * model.embedding_scale
    assert entering.square().mean().item() == pytest.approx(1.0, rel=1e-5)
    with torch.no_grad():
        logits = model(torch.randint(0, 997, (7, 33)))
    loss = (logits.logsumexp(-1) - logits.mean(-1)).mean().item()
    assert math.log(997) - 0.3 < loss < math.log(997) + 1.0
