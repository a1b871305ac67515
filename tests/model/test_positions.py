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


def test_pairs_are_turned_by_the_papers_angles():
    table = rope_table(1001, 6)
    row = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]).expand(1, 1, 3, 1, 6)
    found = apply_rotary(row, table[None, 1000:])[0, 0, 0, 0]
    angles = [1000 / 10000 ** (2 * pair / 6) for pair in range(3)]
    assert found.tolist() == pytest.approx(
        [*map(math.cos, angles), *map(math.sin, angles)], abs=1e-5
    )
