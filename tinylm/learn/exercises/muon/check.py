"""Oracle: the polynomials applied to the singular values, by PyTorch's decomposition in float64."""

import torch

from tinylm.learn.expect import drawn, expect, rows

QUINTICS = ((7.7110, -22.1138, 16.2488), (3.2153, -2.4112, 0.5013), (2.2183, -1.5940, 0.4107))


def _orthogonal(x, steps=QUINTICS, margin=1.02, power=4):
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    s = s / (margin * s.pow(power).sum() ** (1 / power))
    for a, b, c in steps:
        s = a * s + b * s**3 + c * s**5
    return (u * s) @ v


def _suspects(x):
    first = QUINTICS[0]
    return {
        "a loop that ends too early: there are three steps": _orthogonal(x, QUINTICS[:2]),
        "the first step is missing: there are three": _orthogonal(x, QUINTICS[1:]),
        "only one step was taken; there are three": _orthogonal(x, QUINTICS[:1]),
        "each step has its own a, b, c": _orthogonal(x, [first] * 3),
        "the factor 1.02 is missing": _orthogonal(x, margin=1.0),
        "x is divided by its own norm, not by the root of the norm of X X^T": _orthogonal(
            x, margin=1.0, power=2
        ),
        "divide by 1.02 times the root of the norm of X X^T": _orthogonal(x, power=2),
        "the steps are in the wrong order": _orthogonal(x, QUINTICS[::-1]),
        "this is x, only scaled: take the three steps": _orthogonal(x, ()),
    }


def of_a_diagonal(orthogonalise):
    """a diagonal matrix keeps its signs, its numbers end near 1"""
    x = rows([2.0, 0.0], [0.0, -1.0])
    expect(orthogonalise, {"x": x}, _orthogonal(x), _suspects(x))


def equals_the_decomposition(orthogonalise):
    """the steps change the singular values alone"""
    for seed, shape in enumerate([(2, 2), (2, 3), (4, 4), (3, 8)]):
        for scale in (1.0, 100.0, 0.001):
            x = drawn(seed, *shape) * scale
            expect(orthogonalise, {"x": x}, _orthogonal(x), _suspects(x))


def tall(orthogonalise):
    """a tall matrix is the transpose of a wide one"""
    for shape in ((3, 2), (5, 2)):
        x = drawn(7, *shape)
        expect(orthogonalise, {"x": x}, _orthogonal(x), _suspects(x))


def updates(muon, orthogonalise):
    """an update equals the formulas"""
    lr, beta, decay = 0.1, 0.9, 0.5
    for shape in ((2, 2), (2, 3), (4, 2)):
        p, g, m = drawn(1, *shape), drawn(2, *shape), drawn(3, *shape)
        new = beta * m + (1 - beta) * g
        tall = max(1.0, shape[0] / shape[1]) ** 0.5
        wide = max(1.0, shape[1] / shape[0]) ** 0.5

        def of(direction, factor=tall, shrink=1 - lr * decay):
            return p * shrink - lr * factor * _orthogonal(direction), new  # noqa: B023

        ahead = (1 - beta) * g + beta * new
        given = {"p": p, "g": g, "m": m, "lr": lr, "beta": beta, "weight_decay": decay}
        expect(muon, given, of(ahead), {
            "the direction is one step ahead (Nesterov): (1 - beta) g + beta m with the new m": of(new),
            "d uses the new m": of((1 - beta) * g + beta * m),
            "the factor sqrt(max(1, rows / columns)) is missing": of(ahead, 1.0),
            "the factor has rows / columns, not columns / rows": of(ahead, wide),
            "the factor is a root: sqrt(max(1, rows / columns))": of(ahead, tall**2),
            "weight decay is missing": of(ahead, shrink=1.0),
            "weight decay must be multiplied by lr": of(ahead, shrink=1 - decay),
            "m is beta * m + (1 - beta) * g": (of(beta * (beta * m + g) + (1 - beta) * g)[0], beta * m + g),
        })  # fmt: skip
