"""Oracle: multiplication of complex numbers in float64, and what rotations must leave alone."""

import torch

from tinylm.learn.expect import drawn, expect, require, rows


def _angles(x, positions, scale=2.0):
    pairs = torch.arange(x.shape[-1] // 2, dtype=torch.float64)
    return positions.double()[:, None] / 10000 ** (scale * pairs / x.shape[-1])


def _oracle(x, positions, sign=1.0, scale=2.0, neighbours=False):
    wide = x.double()
    a, b = (wide[..., 0::2], wide[..., 1::2]) if neighbours else wide.chunk(2, -1)
    angles = _angles(x, positions, scale)
    turned_by = torch.polar(torch.ones_like(angles), sign * angles)
    result = torch.complex(a, b) * turned_by
    parts = [result.real, result.imag]
    joined = torch.stack(parts, -1).flatten(-2) if neighbours else torch.cat(parts, -1)
    return joined.to(x.dtype)


def _compare(rotate, x, positions):
    given = {"x": x, "positions": positions}
    expect(rotate, given, _oracle(**given), {
        "the rotation has the wrong direction: check the signs of the sines": _oracle(**given, sign=-1.0),
        "the exponent is 2 i / Dh": _oracle(**given, scale=1.0),
        "pairs are (i, i + Dh / 2), not neighbouring columns": _oracle(**given, neighbours=True),
        "positions are not used: yours count from 0": _oracle(x, torch.arange(len(positions))),
    })  # fmt: skip


def position_zero(rotate):
    """position 0 is not rotated"""
    _compare(rotate, rows([[[1.0, 2.0]]]), torch.tensor([0]))


def equals_complex_numbers(rotate):
    """equals multiplication by exp(i angle)"""
    _compare(rotate, rows([[[1.0, 0.0]]]), torch.tensor([1]))
    _compare(rotate, drawn(1, 1, 1, 2, 4), torch.tensor([0, 1]))
    _compare(rotate, drawn(2, 2, 3, 4, 6), torch.tensor([3, 0, 7, 100]))


def depends_on_distance(rotate):
    """a product of query and key depends on their distance only"""
    query, key = drawn(3, 1, 1, 1, 4), drawn(4, 1, 1, 1, 4)
    products = []
    for shift in (0, 5, 50):
        turned_query = rotate(query, torch.tensor([2 + shift]))
        products.append((turned_query * rotate(key, torch.tensor([shift]))).sum().item())
    spread = max(products) - min(products)
    require(spread < 1e-6, "the products at positions (2, 0), (7, 5), (52, 50) differ",
            "is each pair rotated by its own angle?", products=products)  # fmt: skip


def keeps_float32(rotate):
    """float32 stays float32"""
    x = drawn(5, 1, 1, 2, 4).float()
    given = {"x": x, "positions": torch.tensor([1, 2])}
    expect(rotate, given, _oracle(**given))
