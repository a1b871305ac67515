"""What section `model` takes, and what it needs from the embedding's width."""

import pytest
import torch

from tests.support.small import model_settings
from tinylm.model.ops import Ops


@pytest.mark.parametrize(
    ("settings", "width", "keys"),
    [
        ({"heads": 2, "norm_kind": "std"}, 1, ["model.heads", "model.norm_kind"]),
        ({"heads": 2, "norm_kind": "std"}, 2, []),
        ({"heads": 9, "head_width": 4}, 2, []),
        ({"positions": "rotary", "heads": 3, "head_width": 4}, 12, []),
        ({"positions": "rotary", "heads": 3, "head_width": 5}, 12, ["model.positions"]),
        ({"positions": "rotary", "heads": 2}, 12, []),
        ({"positions": "rotary", "heads": 5}, 12, ["model.positions"]),
    ],
)
def test_every_problem_with_a_width_is_named_by_its_key(settings, width, keys):
    problems = model_settings(**settings).problems_with_width(width)
    assert [problem.partition(" = ")[0] for problem in problems] == keys


def test_the_formula_refuses_an_unknown_norm():
    x = torch.ones(2, 3)
    with pytest.raises(ValueError, match="batch"):
        Ops().norm(x, torch.ones(3), None, 1e-5, "batch")
