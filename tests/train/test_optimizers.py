"""Optimizers and clipping compared with torch's."""

import math

import pytest
import torch

from tests.support.small import pairs
from tinylm.train.muon import MARGIN, QUINTICS, STACK, Muon, orthogonalise
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
    ("decoupled", "weight_decay", "betas", "fused"),
    pairs([True, False], [0.3, 0.0], [(0.9, 0.98), (0.0, 0.0)], [False, True]),
)
def test_adam_matches_torch(decoupled, weight_decay, betas, fused):
    ours = parameters()
    theirs = parameters()
    adam = Adam(ours, betas, 1e-8, weight_decay, decoupled, fused)
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    reference = kind(theirs, lr=1.0, betas=betas, eps=1e-8, weight_decay=weight_decay)
    for update in range(20):
        rate = 0.01 * (update + 1)
        for group in reference.param_groups:
            group["lr"] = rate
        set_gradients(ours, update)
        set_gradients(theirs, update)
        adam.step(rate, update + 1)
        reference.step()
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


def test_the_number_of_an_update_is_exact_whatever_the_default_dtype():
    """bfloat16 cannot represent 257."""
    results = []
    for default in (torch.float32, torch.bfloat16):
        parameter = torch.linspace(-1, 1, 6, dtype=torch.float32)
        parameter.grad = torch.ones_like(parameter)
        torch.set_default_dtype(default)
        try:
            Adam([parameter], (0.9, 0.98), 1e-8, 0.0, True, fused=True).step(0.1, 257)
        finally:
            torch.set_default_dtype(torch.float32)
        results.append(parameter)
    assert results[0].equal(results[1])


def test_the_fused_kernel_gets_no_transposed_parameters():
    assert not Adam([torch.zeros(2, 3).T], (0.9, 0.98), 1e-8, 0.0, True, fused=True).fused


@pytest.mark.parametrize("max_norm", [0.05, 1e9, None])
def test_clipping_matches_torch(max_norm):
    ours = parameters()
    theirs = parameters()
    set_gradients(ours, 4)
    set_gradients(theirs, 4)
    norm = clip_gradients(iter(ours), max_norm)
    wanted = torch.nn.utils.clip_grad_norm_(theirs, max_norm or math.inf)
    assert norm == pytest.approx(wanted.item(), rel=1e-12)
    for one, other in zip(ours, theirs, strict=True):
        # torch divides by norm + 1e-6
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-5, atol=0)
    if max_norm == 0.05:
        assert clip_gradients(ours, None) == pytest.approx(0.05, rel=1e-12)


def test_clipping_skips_frozen_parameters_and_sees_nan():
    one, other = parameters()[:2]
    one.grad = torch.full_like(one, 2.0)
    assert clip_gradients([one, other], None) == pytest.approx(2.0 * 35**0.5)
    one.grad[0, 0] = torch.nan
    assert math.isnan(clip_gradients([one, other], 1.0))


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize(
    "changes", [{}, {"tied_output": False, "positions": "learned"}, {"embedding": "frozen"}]
)
def test_every_trainable_parameter_has_one_optimizer(new_model, new_settings, optimizer, changes):
    model = new_model(**changes)
    held: list[int] = []
    for part, _ in make_optimizers(model, new_settings(optimizer=optimizer)):
        parameters = [p for p, _ in part.parameters] if isinstance(part, Muon) else part.parameters
        held += [id(parameter) for parameter in parameters]
        if not isinstance(part, Muon):  # Adam's weight decay is part of the gradient
            assert part.decoupled == (optimizer != "adam")
    assert sorted(held) == sorted(id(p) for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize("decay", ["matrices", "all"])
def test_weight_decay_falls_on_the_blocks_matrices_or_on_all(new_model, new_settings, decay):
    model = new_model(tied_output=False)
    optimizers = make_optimizers(model, new_settings(weight_decay=0.5, decay=decay))
    decayed = {id(p) for adam, _ in optimizers if adam.weight_decay for p in adam.parameters}
    names = {name for name, p in model.named_parameters() if id(p) in decayed}
    wanted = {name for name, _ in model.named_parameters()}
    if decay == "matrices":
        matrices = {name for name, p in model.named_parameters() if p.dim() == 2}
        wanted = {name for name in matrices if name.startswith("blocks")}
    assert names == wanted
    assert {rate for _, rate in optimizers} == {1e-2}


def through(values: torch.Tensor) -> torch.Tensor:
    """What the quintics make of singular values, one by one."""
    for a, b, c in QUINTICS:
        values = a * values + b * values**3 + c * values**5
    return values


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", [(3, 5, 7), (1, 6, 6), (2, 1, 4)])
def test_orthogonalise_is_the_quintics_on_the_singular_values(shape):
    stack = random(*shape)
    u, s, v = torch.linalg.svd(stack, full_matrices=False)
    scale = MARGIN * s.pow(4).sum(-1, keepdim=True).pow(0.25)
    wanted = u * through(s / scale)[:, None, :] @ v
    torch.testing.assert_close(orthogonalise(stack), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [(torch.float64, 1e-12), (torch.float32, 1e12), (torch.bfloat16, 1.0), (torch.bfloat16, 1e12)],
)
def test_no_matrix_is_blown_up(dtype, size):
    """Rank one is the hard case: its singular value is the scale, where the first quintic grows fast."""
    matrix = random(60, 1) @ random(1, 90, seed=2)
    out = orthogonalise((size * matrix).to(dtype)[None])
    assert out.dtype == dtype
    values = torch.linalg.svdvals(out.double())[0]
    assert 0.85 < values[0] < 1.1
    assert values[1] < 0.1


def test_muon_matches_torch_with_converged_directions():
    """torch's with so many steps of the quintic that converges that its directions are orthogonal.

    The matrices have several shapes, and of one shape there are more than a stack has.
    """
    shapes = [(6, 9), (9, 6), (5, 5), *[(6, 9)] * STACK]
    start = [random(*shape, seed=seed).float() for seed, shape in enumerate(shapes, start=1)]
    ours = [matrix.clone().requires_grad_() for matrix in start]
    theirs = [matrix.clone().requires_grad_() for matrix in start]
    muon = Muon([(p, 1) for p in ours], 0.9, 0.1, torch.float32)
    converging = {"ns_coefficients": (1.875, -1.25, 0.375), "ns_steps": 30}
    reference = torch.optim.Muon(theirs, lr=0.05, weight_decay=0.1, momentum=0.9, **converging)
    for update in range(20):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = random(*one.shape, seed=100 + update).float()
            other.grad = one.grad.clone()
        muon.step(0.05)
        reference.step()
    for one, other, first in zip(ours, theirs, start, strict=True):
        assert (one - other).norm() < 0.1 * (other - first).norm()
