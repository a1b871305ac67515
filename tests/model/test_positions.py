import math

import pytest
import torch

from tinylm.model.ops import apply_rotary
from tinylm.model.transformer import rope_table, sinusoids


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


def test_a_turned_query_meets_a_turned_key_at_their_distance_alone():
    table = rope_table(40, 8).double()[None]
    generator = torch.Generator().manual_seed(1)
    query, key, value = torch.randn(3, 2, 8, generator=generator, dtype=torch.float64)
    rows = torch.stack([query, key, value]).expand(1, 40, 3, 2, 8)
    everywhere = apply_rotary(rows, table)[0]  # at each of 40 places
    scores = torch.einsum("thd,shd->hts", everywhere[:, 0], everywhere[:, 1])
    for distance in (0, 1, 17):
        along = scores.diagonal(distance, 1, 2)
        torch.testing.assert_close(along, along[:, :1].expand_as(along), rtol=1e-6, atol=1e-6)
    assert (scores[0, 0, 1:] - scores[0, 0, 0]).abs().min() > 1e-3
    assert torch.equal(everywhere[:, 2], value.expand(40, 2, 8))
    torch.testing.assert_close(everywhere[0, 0], query, rtol=0, atol=0)


def test_pairs_are_turned_by_the_papers_angles():
    table = rope_table(1001, 6)
    row = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]).expand(1, 1, 3, 1, 6)
    found = apply_rotary(row, table[None, 1000:])[0, 0, 0, 0]
    angles = [1000 / 10000 ** (2 * pair / 6) for pair in range(3)]
    assert found.tolist() == pytest.approx(
        [*map(math.cos, angles), *map(math.sin, angles)], abs=1e-5
    )
