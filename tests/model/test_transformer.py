"""The model against plain code, and its positions against the papers' formulas."""

import math
import weakref

import pytest
import torch
from torch.nn import functional as F

from tests.drawn.models import plain_settings, weights_of
from tests.drawn.plain_model import PlainModel
from tests.support.small import model_settings
from tinylm.model.norms import NORMS
from tinylm.model.ops import apply_rotary
from tinylm.model.transformer import rope_table, sinusoids

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


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_model_matches_plain_code(new_model, ids, settings):
    model = new_model(**{"width": 21, "head_width": None, "positions": "learned"} | settings)
    plain = PlainModel(weights_of(model), plain_settings(model))
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    for name in learned:
        plain.weights[name].requires_grad_()
    theirs = plain(ids)
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
    gradients = torch.autograd.grad(reference, [plain.weights[name] for name in learned])
    for parameter, wanted in zip(learned.values(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, wanted, rtol=1e-9, atol=1e-9)


def test_dropout_is_drawn_in_training_only(new_model, ids):
    model = new_model(dropout=0.5)
    assert torch.equal(model(ids), model(ids))
    model.train()
    assert not torch.equal(model(ids), model(ids))


def test_without_gradients_the_input_of_a_block_is_freed_after_it(new_model, ids):
    model = new_model(layers=2).eval()
    inputs = []
    alive = []

    def keep_input(block, arguments):
        alive.append([kept() is not None for kept in inputs])
        inputs.append(weakref.ref(arguments[0]))

    for block in model.blocks:
        block.register_forward_pre_hook(keep_input)
    with torch.no_grad():
        model.hidden_states(ids)
    assert alive == [[], [False]]


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
