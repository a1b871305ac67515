import math

import pytest
import torch

from tinylm.model.transformer import sinusoids


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


def test_positions_far_out_keep_their_precision():
    assert sinusoids(100_001, 2)[100_000, 0].item() == pytest.approx(math.sin(100_000), abs=1e-6)
    expected = [math.sin(100_000 / 10000 ** (2 * pair / 7)) for pair in range(4)]
    assert sinusoids(100_001, 7)[100_000, ::2].tolist() == pytest.approx(expected, abs=1e-6)
