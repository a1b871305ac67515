"""Every operation of training on a card: values and gradients of the reference on the CPU."""

import pytest
import torch

from tests.support.small import random_model
from tinylm.kernels.train import cuda_output_loss
from tinylm.kernels.train.ops import CudaOps, ManualGradOps, compiled_run_block
from tinylm.model.recompute import Checkpointing

VOCAB = 101
OPERATIONS = {
    "manual gradients": ManualGradOps(),
    "fused attention": CudaOps(fused_attention=True, compiled=False),
    "for torch.compile": CudaOps(fused_attention=True, compiled=True),
}
SHAPES = [
    {},
    {"norm_kind": "rms", "positions": "rotary", "heads": 2, "head_width": 8},
    {"norm_kind": "std", "norm": "post", "tied_output": False, "output_bias": True},
    {"heads": 5, "activation": "relu", "embedding": "frozen", "positions": "learned"},
]


def new_model(*operations, **settings):
    torch.manual_seed(7)
    return random_model(VOCAB, 24, *operations, **settings)


def loss_and_gradients(model, device, precision="fp32"):
    """(nats, {name: gradient}), on the CPU."""
    model = model.to(device).train()
    ids = torch.randint(VOCAB, (6, 18), generator=torch.Generator().manual_seed(3)).to(device)
    inputs, targets = ids[:, :-1].clone(), ids[:, 1:].clone()
    targets[0, 9:] = -1
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        loss = model.loss(inputs, targets)
    loss.backward()
    gradients = {n: p.grad.float().cpu() for n, p in model.named_parameters() if p.grad is not None}
    return loss.item(), gradients


def relative_error(ours: torch.Tensor, reference: torch.Tensor) -> float:
    return float((ours - reference).norm() / reference.norm().clamp(min=1e-3))


@pytest.mark.parametrize(("precision", "bound"), [("fp32", 1e-3), ("bf16", 0.05)])
@pytest.mark.parametrize("operations", OPERATIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_loss_and_gradients_are_those_of_the_cpu(
    device, monkeypatch, shape, operations, precision, bound
):
    expected, reference = loss_and_gradients(new_model(**shape), torch.device("cpu"))
    few_rows = {"COMPILED_CHUNK_ROWS": 64, "TORCH_CHUNK_ROWS": 64, "PART_ROWS": 32}
    for name, value in few_rows.items():
        monkeypatch.setattr(cuda_output_loss, name, value)
    model = new_model(OPERATIONS[operations], **shape)
    nats, gradients = loss_and_gradients(model, device, precision)
    assert nats == pytest.approx(expected, rel=bound / 100)
    for name, gradient in reference.items():
        assert relative_error(gradients[name], gradient) < bound, name


def test_compiled_blocks_are_the_blocks(device):
    expected, reference = loss_and_gradients(new_model(), torch.device("cpu"))
    operations = OPERATIONS["for torch.compile"]
    backend = "inductor" if device.type == "cuda" else "aot_eager"
    model = new_model(operations, Checkpointing("none", compiled_run_block(backend)))
    nats, gradients = loss_and_gradients(model, device)
    assert nats == pytest.approx(expected, rel=1e-5)
    for name, gradient in reference.items():
        assert relative_error(gradients[name], gradient) < 1e-3, name
