"""Every operation of training on a card: values and gradients of the reference on the CPU."""

import pytest
import torch

from tests.support.small import random_model
from tinylm.kernels.train.ops import CudaOps, ManualGradOps, compiled_run_block
from tinylm.kernels.train.output_loss import output_loss
from tinylm.model.ops import REFERENCE
from tinylm.model.recompute import Checkpointing

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
    return random_model(101, 24, *operations, **settings)


def batch(rows: int = 6, width: int = 17, vocab: int = 101) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(vocab, (rows, width + 1), generator=generator)
    inputs = ids[:, :-1].clone()
    targets = ids[:, 1:].clone()
    targets[0, 9:] = -1
    return inputs, targets


def backend(device: torch.device) -> str:
    return "inductor" if device.type == "cuda" else "aot_eager"


def loss_and_gradients(model, device, precision="fp32"):
    """(nats, {name: gradient}), on the CPU."""
    model = model.to(device).train()
    inputs, targets = (tensor.to(device) for tensor in batch())
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        loss = model.loss(inputs, targets)
    loss.backward()
    gradients = {n: p.grad.float().cpu() for n, p in model.named_parameters() if p.grad is not None}
    return loss.item(), gradients


def relative_error(ours: torch.Tensor, reference: torch.Tensor) -> float:
    return float((ours - reference).norm() / reference.norm().clamp(min=1e-3))


@pytest.mark.parametrize("operations", OPERATIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_loss_and_gradients_are_those_of_the_cpu(device, shape, operations):
    expected, reference = loss_and_gradients(new_model(**shape), torch.device("cpu"))
    model = new_model(OPERATIONS[operations], **shape)
    nats, gradients = loss_and_gradients(model, device)
    assert nats == pytest.approx(expected, rel=1e-5)
    for name, gradient in reference.items():
        assert relative_error(gradients[name], gradient) < 1e-3, name


def test_compiled_blocks_are_the_blocks(device):
    expected, reference = loss_and_gradients(new_model(), torch.device("cpu"))
    operations = OPERATIONS["for torch.compile"]
    model = new_model(operations, Checkpointing("none", compiled_run_block(backend(device))))
    nats, gradients = loss_and_gradients(model, device)
    assert nats == pytest.approx(expected, rel=1e-5)
    for name, gradient in reference.items():
        assert relative_error(gradients[name], gradient) < 1e-3, name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_the_loss_in_chunks_is_cross_entropy(device, with_bias, compiled, dtype):
    if compiled and device.type == "cpu":
        pytest.skip("compiled on CUDA only")
    generator = torch.Generator().manual_seed(5)
    words = 1003
    hidden = torch.randn(9000, 30, generator=generator)
    weight = torch.randn(words, 30, generator=generator) * 0.3
    bias = torch.randn(words, generator=generator) if with_bias else None
    targets = torch.randint(-1, words, (9000,), generator=generator)
    results = []
    for target in (torch.device("cpu"), device):
        wide = torch.float64 if target.type == "cpu" else torch.float32
        tensors = [
            t if t is None else t.to(target, wide).requires_grad_() for t in (hidden, weight, bias)
        ]
        if target.type == "cpu":
            loss = REFERENCE.output_loss(*tensors, targets)
        else:
            with torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.bfloat16):
                loss = output_loss(*tensors, targets.to(target), compiled=compiled)
        loss.backward()
        results.append((loss.item(), [t.grad.double().cpu() for t in tensors if t is not None]))
    (expected, reference), (nats, gradients) = results[0], results[-1]
    bound = 1e-2 if dtype == torch.bfloat16 else 1e-4
    assert nats == pytest.approx(expected, rel=bound / 10)
    for ours, exact in zip(gradients, reference, strict=True):
        assert relative_error(ours, exact) < bound
