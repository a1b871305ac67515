import pytest
import torch

from tinylm.train.muon import MARGIN, QUINTICS, Muon, orthogonalise


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
    """torch's with so many steps of the quintic that converges that its directions are orthogonal."""
    start = [random(6, 9).float(), random(9, 6, seed=3).float()]
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
