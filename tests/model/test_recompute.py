import pytest
import torch

from tests.support.small import needs_compiler
from tinylm.kernels.train.ops import ManualGradOps, NativeOps
from tinylm.model.recompute import Checkpointing

VARIANTS = [
    {"dropout": 0.3, "norm": "post", "heads": 4},
    {"embedding": "frozen", "dropout": 0.2},
    {"dropout": 0.3, "norm_kind": "rms", "positions": "learned", "tied_output": False},
    {"dropout": 0.3, "norm_kind": "std", "positions": "none", "qkv_bias": False},
    {"dropout": 0.3, "positions": "rotary", "head_width": 6},
    {"embedding": "frozen", "norm": "post", "positions": "learned", "output_bias": True},
]


def one_step(model, ids, precision: str):
    """Loss, all gradients over two accumulated mini-batches, and the random stream's next draw."""
    model.zero_grad()
    torch.manual_seed(5)
    losses = []
    for rows in (ids[:2], ids[2:]):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision != "fp32"):
            loss = model.loss(rows, rows)
        loss.backward()
        losses.append(loss.detach())
    return losses, {name: p.grad for name, p in model.named_parameters()}, torch.rand(3)


@pytest.mark.parametrize(
    "precision", ["fp32", "bf16", pytest.param("native bf16", marks=needs_compiler)]
)
@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_recomputation_changes_no_bit_of_loss_gradient_or_random_stream(
    new_model, ids, settings, precision
):
    ops = NativeOps() if precision == "native bf16" else ManualGradOps()
    steps = []
    for on in ("none", "blocks"):
        torch.manual_seed(1)
        model = new_model(ops=ops, run_blocks=Checkpointing(on), **{"layers": 4} | settings)
        steps.append(one_step(model.float().train(), ids, precision))
    without, with_it = steps
    assert all(map(torch.equal, without[0], with_it[0]))
    for name, gradient in without[1].items():
        if gradient is None:
            assert (name, settings["embedding"], with_it[1][name]) == ("embedding", "frozen", None)
        else:
            assert torch.equal(gradient, with_it[1][name]), name
            assert gradient.abs().sum() > 0, name
    assert torch.equal(without[2], with_it[2])
