"""The profile by operation: what is there is counted, what is not there is zero."""

import pytest
import torch

from tests.bench.conftest import results
from tinylm.bench.operations import PARTS, shares
from tinylm.model.checkpoint import load_model


def test_an_update_has_every_part_and_a_decoding_step_no_loss(finished_run):
    update = results(finished_run, "ckpt_bench")[1]["profile"]["shares"]
    step = results(finished_run, "kv_bench")[1]["profile"]["shares"]
    assert tuple(update) == tuple(step) == PARTS
    for found in (update, step):
        assert sum(found.values()) == pytest.approx(1, abs=1e-3)
    assert min(update.values()) > 0
    assert step["loss"] == step["optimizer"] == 0 < min(step["matrix products"], step["attention"])


@pytest.mark.parametrize("backward", [False, True])
def test_gradients_count_for_the_operation_that_they_are_of(backward, finished_run):
    """A large matrix product after the blocks outweighs them, forwards and backwards."""
    model, _ = load_model(finished_run / "models")
    x = torch.randn(1500, 1500, requires_grad=True)
    weight = torch.randn(1500, 1500, requires_grad=True)

    def step():
        model.hidden_states(torch.zeros(1, 4, dtype=torch.long)).sum()
        product = torch.nn.functional.linear(x, weight).relu().sum()
        if backward:
            product.backward()

    assert shares(model, step)["matrix products"] > 0.5
