import math

import pytest
import torch

from tests.support.pairs import pairs
from tinylm.train.muon import Muon
from tinylm.train.optimizers import Adam, clip_gradients
from tinylm.train.trainer import make_optimizers


def parameters(dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [
        torch.randn(shape, dtype=dtype, generator=generator).requires_grad_()
        for shape in ((5, 7), (7,), (2, 3))
    ]


def set_gradients(tensors: list[torch.Tensor], update: int) -> None:
    generator = torch.Generator().manual_seed(update)
    for tensor in tensors:
        size = 10.0 ** float(torch.randint(-6, 3, (1,), generator=generator))
        tensor.grad = size * torch.randn(tensor.shape, dtype=tensor.dtype, generator=generator)


@pytest.mark.parametrize(
    ("decoupled", "weight_decay", "betas"),
    pairs([True, False], [0.3, 0.0], [(0.9, 0.98), (0.0, 0.0)]),
)
def test_adam_matches_torch(decoupled, weight_decay, betas):
    ours, theirs = parameters(), parameters()
    adam = Adam([(ours[:2], weight_decay), (ours[2:], 0.0)], betas, 1e-8, decoupled)
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    groups = [
        {"params": theirs[:2], "weight_decay": weight_decay},
        {"params": theirs[2:], "weight_decay": 0.0},
    ]
    reference = kind(groups, lr=1.0, betas=betas, eps=1e-8)
    for update in range(20):
        rate = 0.01 * (update + 1)
        for group in reference.param_groups:
            group["lr"] = rate
        set_gradients(ours, update)
        set_gradients(theirs, update)
        adam.step(rate)
        reference.step()
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_a_parameter_without_a_gradient_stays_and_those_behind_it_learn(kind):
    one, other, last = (torch.ones(2, 3, dtype=torch.float64, requires_grad=True) for _ in "abc")
    if kind == "adam":
        optimizer: Adam | Muon = Adam([([one, other], 0.1), ([last], 0.0)], (0.9, 0.98), 1e-8, True)
    else:
        optimizer = Muon([(one, 1), (other, 1), (last, 1)], 0.9, 0.1, torch.float64)
    for parameter in (other, last):
        parameter.grad = torch.ones_like(parameter)
    optimizer.step(0.1)
    assert one.eq(1.0).all()
    assert other.ne(1.0).all()
    assert last.ne(1.0).all()
    moved = [not tensor.eq(0).all() for tensor in optimizer.state_dict().values()]
    assert moved == ([False, True, True] * 2 if kind == "adam" else [False, True, True])
    assert optimizer.updates == 1


def test_the_state_of_optimizers_has_a_name_for_each_tensor():
    tensors = parameters(torch.float32)
    adam = Adam([(tensors[:2], 0.1), (tensors[2:], 0.0)], (0.9, 0.98), 1e-8, True)
    wanted = ["first.0", "first.1", "first.2", "second.0", "second.1", "second.2"]
    assert list(adam.state_dict()) == wanted
    shapes = [tuple(tensor.shape) for tensor in adam.state_dict().values()]
    assert shapes == [(5, 7), (7,), (2, 3)] * 2
    set_gradients(tensors, 1)
    adam.step(0.1)
    assert torch.equal(adam.state_dict()["first.1"], adam.first[1])
    assert torch.equal(adam.state_dict()["second.2"], adam.second[2])
    muon = Muon([(tensors[0], 1), (tensors[2], 1)], 0.9, 0.1, torch.float32)
    assert list(muon.state_dict()) == ["momentum.0", "momentum.1"]
    assert torch.equal(muon.state_dict()["momentum.1"], muon.momentum[1])
    assert adam.updates - muon.updates == 1


@pytest.mark.parametrize("max_norm", [0.05, 1e9, None])
def test_clipping_matches_torch(max_norm):
    ours, theirs = parameters(), parameters()
    set_gradients(ours, 4)
    set_gradients(theirs, 4)
    norm = clip_gradients(iter(ours), max_norm)
    wanted = torch.nn.utils.clip_grad_norm_(theirs, max_norm or math.inf)
    assert norm == pytest.approx(wanted.item(), rel=1e-12)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(
            one.grad, other.grad, rtol=1e-5, atol=0
        )  # torch divides by norm + 1e-6
    if max_norm == 0.05:
        assert clip_gradients(ours, None) == pytest.approx(0.05, rel=1e-12)


@pytest.mark.parametrize(("max_norm", "after"), [(4.9, 4.9), (5.0, 5.0), (5.1, 5.0)])
def test_clipping_starts_at_its_bound(max_norm, after):
    tensor = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    tensor.grad = torch.tensor([3.0, 4.0], dtype=torch.float64)
    assert clip_gradients([tensor], max_norm) == 5.0
    assert tensor.grad.norm().item() == pytest.approx(after, rel=1e-12)


def test_clipping_skips_frozen_parameters_and_sees_nan():
    one, other = parameters()[:2]
    one.grad = torch.full_like(one, 2.0)
    assert clip_gradients([one, other], None) == pytest.approx(2.0 * 35**0.5)
    one.grad[0, 0] = torch.nan
    assert math.isnan(clip_gradients([one, other], 1.0))


def test_a_norm_past_the_range_of_squares_in_float32_is_still_a_number():
    tensor = torch.zeros(3, requires_grad=True)
    tensor.grad = torch.full((3,), 1e25)
    assert clip_gradients([tensor], 1.0) == pytest.approx(1e25 * 3**0.5, rel=1e-6)
    assert tensor.grad.norm().item() == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
@pytest.mark.parametrize("changes", [{}, {"tied_output": False}, {"embedding": "frozen"}])
def test_every_trainable_parameter_has_one_optimizer(new_model, new_settings, optimizer, changes):
    model = new_model(**changes)
    held: list[int] = []
    for part, _ in make_optimizers(model, new_settings(optimizer=optimizer)):
        held += (
            [id(p) for p, _ in part.parameters]
            if isinstance(part, Muon)
            else [id(p) for g, _ in part.groups for p in g]
        )
    assert sorted(held) == sorted(id(p) for p in model.parameters() if p.requires_grad)


def test_weight_decay_falls_on_the_blocks_matrices_only(new_model, new_settings):
    model = new_model(tied_output=False)
    ((adam, rate),) = make_optimizers(model, new_settings(weight_decay=0.5))
    decayed = {id(p) for group, decay in adam.groups if decay for p in group}
    names = {name for name, p in model.named_parameters() if id(p) in decayed}
    assert names == {
        n for n, p in model.named_parameters() if n.startswith("blocks") and p.dim() == 2
    }
    assert rate == 1e-2


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
@pytest.mark.parametrize(
    "changes", [{}, {"tied_output": False, "positions": "learned", "output_bias": True}]
)
def test_weight_decay_on_all(new_model, new_settings, optimizer, changes):
    model = new_model(**changes)
    parts = [
        p
        for p, _ in make_optimizers(
            model, new_settings(optimizer=optimizer, decay="all", weight_decay=0.5)
        )
    ]
    groups = [group for part in parts if isinstance(part, Adam) for group in part.groups]
    assert {decay for _, decay in groups} == {0.5}
    assert all(part.weight_decay == 0.5 for part in parts if isinstance(part, Muon))
    decayed = sum(len(group) for group, _ in groups) + sum(
        len(p.parameters) for p in parts if isinstance(p, Muon)
    )
    assert decayed == len(list(model.parameters()))


def test_adamw_on_all_matches_torch(new_model, new_settings, ragged):
    models = [new_model(tied_output=False).double() for _ in "ab"]
    ((ours, _),) = make_optimizers(
        models[0], new_settings(decay="all", weight_decay=0.05, eps=1e-3)
    )
    theirs = torch.optim.AdamW(
        models[1].parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-3, weight_decay=0.05
    )
    for batch in ragged * 2:
        for model in models:
            model.zero_grad()
            model.loss(batch.inputs, batch.targets).backward()
        ours.step(0.01)
        theirs.step()
    for one, other in zip(*(m.parameters() for m in models), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_learned_positions_are_no_matrix_of_a_block(new_model, new_settings, optimizer):
    model = new_model(positions="learned")
    (name,) = {n for n, _ in model.named_parameters()} - {
        n for n, _ in new_model().named_parameters()
    }
    learned = dict(model.named_parameters())[name]
    parts = [
        part
        for part, _ in make_optimizers(model, new_settings(optimizer=optimizer))
        if isinstance(part, Adam)
    ]
    ((_, decay),) = [
        group for part in parts for group in part.groups if any(p is learned for p in group[0])
    ]
    assert decay == 0.0
