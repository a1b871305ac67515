import math

import pytest
import torch

from tinylm.training.optimizers import Adam, Muon, clip_gradients, orthogonalise
from tinylm.training.trainer import make_optimizers


def parameters(dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(shape, dtype=dtype, generator=generator).requires_grad_() for shape in ((5, 7), (7,), (2, 3))]


def set_gradients(tensors: list[torch.Tensor], update: int) -> None:
    generator = torch.Generator().manual_seed(update)
    for tensor in tensors:
        size = 10.0 ** float(torch.randint(-6, 3, (1,), generator=generator))
        tensor.grad = size * torch.randn(tensor.shape, dtype=tensor.dtype, generator=generator)


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
@pytest.mark.parametrize("betas", [(0.9, 0.98), (0.0, 0.0)])
def test_adam_matches_torch(decoupled, weight_decay, betas):
    ours, theirs = parameters(), parameters()
    adam = Adam([(ours[:2], weight_decay), (ours[2:], 0.0)], betas, 1e-8, decoupled)
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    groups = [{"params": theirs[:2], "weight_decay": weight_decay}, {"params": theirs[2:], "weight_decay": 0.0}]
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


def test_a_parameter_without_a_gradient_stays():
    one, other = parameters()[:2]
    adam = Adam([([one, other], 0.1)], (0.9, 0.98), 1e-8, True)
    before = one.detach().clone()
    other.grad = torch.ones_like(other)
    adam.step(0.1)
    assert torch.equal(one, before)


@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (6, 6)])
def test_orthogonalise_is_the_quintic_on_the_singular_values(shape):
    matrix = torch.randn(shape, dtype=torch.float64)
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    s = s / (matrix.norm() + 1e-7)
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    torch.testing.assert_close(orthogonalise(matrix, torch.float64), u * s @ v, rtol=1e-9, atol=1e-9)
    assert torch.linalg.svdvals(orthogonalise(matrix)).max() < 1.3


def test_muon_matches_torch():
    ours, theirs = (
        [torch.randn(s, generator=torch.Generator().manual_seed(1)).requires_grad_() for s in ((6, 9), (9, 6))]
        for _ in "ab"
    )
    muon = Muon([(p, 1) for p in ours], 0.9, 0.1, torch.bfloat16)  # torch's iterates in bfloat16
    reference = torch.optim.Muon(theirs, lr=0.05, weight_decay=0.1, momentum=0.9)
    start = [p.detach().clone() for p in ours]
    for update in range(20):
        set_gradients(ours, update)
        set_gradients(theirs, update)
        muon.step(0.05)
        reference.step()
    for one, other, first in zip(ours, theirs, start, strict=True):
        assert (one - other).norm() < 0.03 * (other - first).norm()


def test_muon_takes_stacked_matrices_piece_by_piece():
    stacked = torch.randn(12, 5, dtype=torch.float64).requires_grad_()
    pieces = [piece.detach().clone().requires_grad_() for piece in stacked.chunk(3)]
    stacked.grad = torch.randn(12, 5, dtype=torch.float64) * torch.tensor([1.0] * 4 + [9.0] * 4 + [0.1] * 4)[:, None]
    for piece, grad in zip(pieces, stacked.grad.chunk(3), strict=True):
        piece.grad = grad.clone()
    Muon([(stacked, 3)], 0.9, 0.1, torch.float64).step(0.1)
    Muon([(piece, 1) for piece in pieces], 0.9, 0.1, torch.float64).step(0.1)
    torch.testing.assert_close(stacked, torch.cat(pieces), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("max_norm", [0.05, 1e9, None])
def test_clipping_matches_torch(max_norm):
    ours, theirs = parameters(), parameters()
    set_gradients(ours, 4)
    set_gradients(theirs, 4)
    norm = clip_gradients(iter(ours), max_norm)
    wanted = torch.nn.utils.clip_grad_norm_(theirs, max_norm or math.inf)
    assert norm == pytest.approx(wanted.item(), rel=1e-12)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-5, atol=0)  # torch divides by norm + 1e-6
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
    assert names == {n for n, p in model.named_parameters() if n.startswith("blocks") and p.dim() == 2}
    assert rate == 1e-2


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
@pytest.mark.parametrize("changes", [{}, {"tied_output": False, "positions": "learned", "output_bias": True}])
def test_weight_decay_on_all(new_model, new_settings, optimizer, changes):
    model = new_model(**changes)
    parts = [p for p, _ in make_optimizers(model, new_settings(optimizer=optimizer, decay="all", weight_decay=0.5))]
    groups = [group for part in parts if isinstance(part, Adam) for group in part.groups]
    assert {decay for _, decay in groups} == {0.5}
    assert all(part.weight_decay == 0.5 for part in parts if isinstance(part, Muon))
    decayed = sum(len(group) for group, _ in groups) + sum(len(p.parameters) for p in parts if isinstance(p, Muon))
    assert decayed == len(list(model.parameters()))


def test_adamw_on_all_matches_torch(new_model, new_settings, ragged):
    models = [new_model(tied_output=False).double() for _ in "ab"]
    ((ours, _),) = make_optimizers(models[0], new_settings(decay="all", weight_decay=0.05, eps=1e-3))
    theirs = torch.optim.AdamW(models[1].parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-3, weight_decay=0.05)
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
    (name,) = {n for n, _ in model.named_parameters()} - {n for n, _ in new_model().named_parameters()}
    learned = dict(model.named_parameters())[name]
    parts = [part for part, _ in make_optimizers(model, new_settings(optimizer=optimizer)) if isinstance(part, Adam)]
    ((_, decay),) = [group for part in parts for group in part.groups if any(p is learned for p in group[0])]
    assert decay == 0.0
