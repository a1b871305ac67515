"""Oracle: the singular value decomposition in float64."""

import torch

from tinylm.learn.expect import drawn, expect, require, rows


def _well_conditioned(seed, m, n):
    u, _, v = torch.linalg.svd(drawn(seed, m, n), full_matrices=False)
    return u * torch.linspace(0.05, 1.0, min(m, n)).double() @ v


def _aligned(orthogonalise, x):
    """The singular values of the answer, if it has the singular vectors of x."""
    u, _, v = torch.linalg.svd(x, full_matrices=False)
    answer = orthogonalise(x.clone())
    require(isinstance(answer, torch.Tensor) and answer.shape == x.shape, "the shape must be that of x",
            "work on the transpose, then transpose back", x=x, yours=answer)  # fmt: skip
    core = u.T @ answer @ v.T
    off = (core - core.diag().diag()).abs().max().item()
    require(off < 1e-3, "the singular vectors are not those of x", "only a X + (b A + c A^2) X keeps them",
            x=x, yours=answer)  # fmt: skip
    return core.diag()


def of_a_diagonal(orthogonalise):
    """a diagonal matrix keeps its signs, its numbers end near 1"""
    x = rows([2.0, 0.0], [0.0, -1.0])
    values = _aligned(orthogonalise, x)
    require(((values > 0.6) & (values < 1.3)).all(), "the singular values are not near 1",
            "divide by the Frobenius norm, then take five steps", x=x, singular_values=values)  # fmt: skip


def singular_values(orthogonalise):
    """all singular values end between 0.6 and 1.3"""
    for seed, shape in enumerate([(2, 2), (2, 3), (4, 4), (3, 8)]):
        x = _well_conditioned(seed, *shape)
        for scale in (1.0, 100.0, 0.001):
            values = _aligned(orthogonalise, x * scale)
            require(((values > 0.6) & (values < 1.3)).all(), "the singular values are not near 1",
                    "divide by the Frobenius norm, then take five steps", x=x * scale,
                    singular_values=values)  # fmt: skip


def tall(orthogonalise):
    """a tall matrix is the transpose of a wide one"""
    x = _well_conditioned(7, 5, 2)
    _aligned(orthogonalise, x)
    expect(orthogonalise, {"x": x}, orthogonalise(x.T.clone()).T, tolerance=0.3)


def updates(muon, orthogonalise):
    """an update equals the formulas"""
    lr, beta, decay = 0.1, 0.9, 0.5
    for shape in ((2, 2), (4, 2), (2, 3)):
        p, g, m = drawn(1, *shape), _well_conditioned(2, *shape), _well_conditioned(3, *shape)
        new = beta * m + (1 - beta) * g
        stretch = max(1.0, shape[0] / shape[1]) ** 0.5

        def of(direction, factor=stretch, shrink=1 - lr * decay):
            return p * shrink - lr * factor * orthogonalise(direction), new  # noqa: B023

        ahead = (1 - beta) * g + beta * new
        given = {"p": p, "g": g, "m": m, "lr": lr, "beta": beta, "weight_decay": decay}
        expect(muon, given, of(ahead), {
            "the direction is one step ahead (Nesterov): (1 - beta) g + beta m with the new m": of(new),
            "d uses the new m": of((1 - beta) * g + beta * m),
            "the factor sqrt(max(1, rows / columns)) is missing": of(ahead, 1.0),
            "weight decay is missing": of(ahead, shrink=1.0),
            "m is beta * m + (1 - beta) * g": (of(ahead)[0], beta * m + g),
        })  # fmt: skip
