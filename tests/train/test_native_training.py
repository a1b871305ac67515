"""Whether native kernels serve a run, and the optimizer's against its torch path."""

import pytest
import torch

from tests.support.small import needs_compiler
from tinylm.kernels.library import CannotCompile
from tinylm.kernels.train import binding, ops
from tinylm.kernels.train.ops import ByHand, Native
from tinylm.train.optimizers import Adam, clip_gradients
from tinylm.train.trainer import Trainer

CPU = torch.device("cpu")


@needs_compiler
@pytest.mark.parametrize(("chosen", "expected"), [("fp32", ByHand), ("bf16", Native)])
def test_native_kernels_serve_bf16_only(new_model, new_batches, new_settings, chosen, expected):
    settings = new_settings(precision=chosen)
    trainer = Trainer(new_model(settings), new_batches(), settings)
    assert {type(part.ops) for part in trainer.model.modules() if hasattr(part, "ops")} == {
        expected
    }
    assert (
        [optimizer.native for optimizer, _ in trainer.optimizers]
        == [trainer.native]
        == [expected is Native]
    )
    assert (ops.why_not_native(chosen, CPU) == "") is trainer.native


def test_without_a_compiler_training_goes_torchs_way_and_says_why(
    monkeypatch, new_model, new_batches, new_settings
):
    def missing():
        raise CannotCompile("no C++ compiler found")

    monkeypatch.setattr(binding, "library", missing)
    ops.why_no_kernels.cache_clear()
    try:
        settings = new_settings(precision="bf16")
        trainer = Trainer(new_model(settings, dropout=0.1), new_batches(), settings)
        assert type(trainer.model.ops) is ByHand
        assert not trainer.native
        assert ops.why_not_native("bf16", CPU) == "no C++ compiler found"
        before = trainer.update(trainer.next_batches())[0]
        for _ in range(10):
            after = trainer.update(trainer.next_batches())[0]
        assert after < before
    finally:
        ops.why_no_kernels.cache_clear()


@needs_compiler
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_native_kernels_train_as_torch_does(
    monkeypatch, new_model, new_batches, new_settings, optimizer
):
    """The losses of 20 updates differ by rounding alone."""
    curves = []
    for kind in (Native, ByHand):
        monkeypatch.setattr(ops, "Native", kind)
        settings = new_settings(precision="bf16", optimizer=optimizer, lr=3e-3)
        trainer = Trainer(new_model(settings), new_batches(), settings)
        for adam, _ in trainer.optimizers:
            adam.native = kind is Native
        curves.append([trainer.update(trainer.next_batches())[0] for _ in range(20)])
    assert curves[0] == pytest.approx(curves[1], rel=0.01)
    assert curves[0][-1] < 0.9 * curves[0][0]
    assert curves[0] != curves[1]


@needs_compiler
@pytest.mark.parametrize("decoupled", [True, False])
def test_adam_matches_its_torch_path(decoupled):
    results = []
    for native in (True, False):
        torch.manual_seed(7)
        parameters = [torch.randn(size).requires_grad_() for size in ((301, 70), (7,), ())]
        adam = Adam(
            [(parameters[:2], 0.3), (parameters[2:], 0.0)], (0.9, 0.98), 1e-8, decoupled, native
        )
        norms = []
        for update in range(10):
            for parameter in parameters:
                parameter.grad = torch.randn(parameter.shape) * 10.0**-update
            if update % 2:
                parameters[0].grad = torch.randn(
                    70, 301
                ).T  # as torch hands over a transposed product
            norms.append(clip_gradients(parameters, 1.0, native))
            adam.step(0.01)
        results.append([*parameters, *adam.tensors().values(), torch.tensor(norms)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-6)
