"""The model against torch's finished functions, and its positions against the papers' formulas."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.support.small import model_settings
from tinylm.model.norms import NORMS
from tinylm.model.ops import apply_rotary
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import Block, TinyLM, rope_table, sinusoids

NO_BIAS = {"qkv_bias": False, "attention_bias": False}
VARIANTS = [
    {"activation": "gelu"},
    {"activation": "relu", "heads": 8, "head_width": 5, **NO_BIAS},  # wider than the vectors
    {"norm": "post", "activation": "relu"},
    {"norm": "post", "final_norm": False, "tied_output": False, **NO_BIAS},
    {"norm_kind": "rms", "norm_eps": 1e-8, "positions": "none", "heads": 1, "tied_output": False},
    {"norm_kind": "std", "norm": "post", "positions": "learned", "output_bias": True},
    {"tied_output": False, "output_bias": True, "final_norm": False},
    {"positions": "none", "embedding": "frozen", "output_bias": True, "head_width": 4},
    *({"norm_kind": kind, "positions": "none"} for kind in NORMS),
]


def torch_norm(norm: nn.Module, x: torch.Tensor, settings: ModelSettings) -> torch.Tensor:
    if isinstance(norm, nn.Identity):
        return x
    if settings.norm_kind == "layer":
        return F.layer_norm(x, x.shape[-1:], norm.gain, norm.bias, settings.norm_eps)
    if settings.norm_kind == "rms":
        return F.rms_norm(x, x.shape[-1:], norm.gain, settings.norm_eps)
    if settings.norm_kind == "std":
        normed = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + settings.norm_eps)
        return normed * norm.gain + norm.bias
    raise NotImplementedError(f"write the formula of norm_kind {settings.norm_kind} here")


def torch_block(block: Block, x: torch.Tensor, settings: ModelSettings) -> torch.Tensor:
    """The block by torch's finished functions, on our parameters."""
    attention, forward = block.attention, block.feed_forward

    def attend(x: torch.Tensor) -> torch.Tensor:
        qkv = F.linear(x, attention.qkv.weight, attention.qkv.bias)
        heads = qkv.unflatten(-1, (3, settings.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        mixed = mixed.transpose(1, 2).flatten(2)
        return F.linear(mixed, attention.out.weight, attention.out.bias)

    def feed(x: torch.Tensor) -> torch.Tensor:
        inner = getattr(F, settings.activation)(F.linear(x, forward.up.weight, forward.up.bias))
        return F.linear(inner, forward.down.weight, forward.down.bias)

    if settings.norm == "pre":
        x = x + attend(torch_norm(block.norm1, x, settings))
        return x + feed(torch_norm(block.norm2, x, settings))
    x = torch_norm(block.norm1, x + attend(x), settings)
    return torch_norm(block.norm2, x + feed(x), settings)


def torch_logits(model: TinyLM, ids: torch.Tensor) -> torch.Tensor:
    """The model made of torch's finished functions, on our parameters."""
    x = F.embedding(ids, model.embedding * model.embedding_scale)
    if model.settings.positions == "learned":
        x = x + model.positions[: ids.shape[1]]
    elif model.settings.positions == "sinusoids":
        x = x + sinusoids(ids.shape[1], model.width)
    for block in model.blocks:
        x = torch_block(block, x, model.settings)
    x = torch_norm(model.final_norm, x, model.settings)
    if model.output is not None:
        return F.linear(x, model.output.weight, model.output.bias)
    logits = x @ model.embedding.T * model.embedding_scale / model.width**0.5
    return logits if model.output_bias is None else logits + model.output_bias


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_model_matches_torch(new_model, ids, settings):
    model = new_model(**{"width": 21, "head_width": None} | settings)
    theirs = torch_logits(model, ids)
    torch.testing.assert_close(model(ids), theirs, rtol=1e-11, atol=1e-11)
    targets = torch.randint(0, 31, ids.shape)
    targets[1, 3:] = -1
    loss = model.loss(ids, targets)
    reference = F.cross_entropy(
        theirs.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="sum"
    )
    torch.testing.assert_close(loss, reference, rtol=1e-12, atol=0)
    torch.testing.assert_close(model.token_loss(ids, targets).sum(), reference, rtol=1e-12, atol=0)
    loss.backward()
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    gradients = torch.autograd.grad(reference, list(learned.values()))
    for parameter, wanted in zip(learned.values(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, wanted, rtol=1e-9, atol=1e-9)


def test_dropout_is_drawn_in_training_only(new_model, ids):
    model = new_model(dropout=0.5)
    assert torch.equal(model(ids), model(ids))
    model.train()
    assert not torch.equal(model(ids), model(ids))


@pytest.mark.parametrize("settings", VARIANTS[4:7], ids=str)
def test_the_state_of_a_model_is_its_parameters_and_the_scale_of_its_vectors(new_model, settings):
    """What saved models hold: no table that follows from the settings."""
    model = new_model(**settings)
    names = {name for name, _ in model.named_parameters()}
    assert set(model.state_dict()) == names | {"embedding_scale"}


@pytest.mark.parametrize(
    ("settings", "width", "keys"),
    [
        ({"heads": 2, "norm_kind": "std"}, 1, ["model.heads", "model.norm_kind"]),
        ({"heads": 2, "norm_kind": "std"}, 2, []),
        ({"heads": 8}, 300, ["model.heads"]),
        ({"heads": 9, "head_width": 4}, 2, []),
        ({"positions": "rotary", "heads": 3, "head_width": 4}, 12, []),
        ({"positions": "rotary", "heads": 3, "head_width": 5}, 12, ["model.positions"]),
        ({"positions": "rotary", "heads": 2}, 12, []),
        ({"positions": "rotary", "heads": 4}, 12, ["model.positions"]),
    ],
)
def test_every_problem_with_a_width_is_named_by_its_key(settings, width, keys):
    settings = {"head_width": None} | settings
    problems = model_settings(**settings).problems_with_width(width)
    assert [problem.partition(":")[0] for problem in problems] == keys


@pytest.mark.parametrize("width", [1, 2, 7, 300, 301])
def test_sinusoids_are_the_papers_formula_at_any_width(width):
    context = 11
    table = sinusoids(context, width)
    assert table.shape == (context, width)
    assert table.dtype == torch.float32
    for t in range(context):
        for column in range(width):
            angle = t / 10000 ** ((column - column % 2) / width)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert table[t, column].item() == pytest.approx(expected, abs=1e-6)


def test_pairs_are_turned_by_the_papers_angles():
    table = rope_table(1001, 6)
    row = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]).expand(1, 1, 3, 1, 6)
    found = apply_rotary(row, table[None, 1000:])[0, 0, 0, 0]
    angles = [1000 / 10000 ** (2 * pair / 6) for pair in range(3)]
    assert found.tolist() == pytest.approx(
        [*map(math.cos, angles), *map(math.sin, angles)], abs=1e-5
    )
