"""Whether a run's loops are compiled, and the optimizer's against its torch path."""

import pytest
import torch

from tests.support.small import needs_compiler
from tinylm.kernels.library import CannotCompile
from tinylm.kernels.training import binding as library
from tinylm.training import precision
from tinylm.training.optimizers import Adam, clip_gradients
from tinylm.training.trainer import Trainer


def parts_looped(trainer: Trainer) -> set[bool]:
    return {part.looped for part in trainer.model.modules() if hasattr(part, "looped")} | {trainer.looped}


@needs_compiler
@pytest.mark.parametrize(("chosen", "expected"), [("fp32", False), ("bf16", True)])
def test_loops_are_compiled_in_bf16_only(new_model, new_batches, new_settings, chosen, expected):
    trainer = Trainer(new_model(), new_batches(), new_settings(precision=chosen))
    assert parts_looped(trainer) == {expected}
    assert [optimizer.looped for optimizer, _ in trainer.optimizers] == [expected]
    assert (precision.why_not_looped(trainer.settings, trainer.model) == "") is expected


def test_without_a_compiler_training_goes_torchs_way_and_says_why(monkeypatch, new_model, new_batches, new_settings):
    def missing():
        raise CannotCompile("no C++ compiler found")

    monkeypatch.setattr(library, "library", missing)
    precision.why_no_loops.cache_clear()
    try:
        trainer = Trainer(new_model(dropout=0.1), new_batches(), new_settings(precision="bf16"))
        assert parts_looped(trainer) == {False}
        assert precision.why_not_looped(trainer.settings, trainer.model) == "no C++ compiler found"
        before = trainer.update(trainer.next_batches())[0]
        for _ in range(10):
            after = trainer.update(trainer.next_batches())[0]
        assert after < before
    finally:
        precision.why_no_loops.cache_clear()


@needs_compiler
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_compiled_loops_train_as_torch_does(new_model, new_batches, new_settings, optimizer):
    """The same dropout, so that the losses of 20 updates differ by rounding alone."""
    curves = []
    for looped in (True, False):
        torch.manual_seed(3)
        trainer = Trainer(
            new_model(dropout=0.1), new_batches(), new_settings(precision="bf16", optimizer=optimizer, lr=3e-3)
        )
        trainer.model.use_loops(looped)
        for adam, _ in trainer.optimizers:
            adam.looped = looped
        curves.append([trainer.update(trainer.next_batches())[0] for _ in range(20)])
    assert curves[0] == pytest.approx(curves[1], rel=0.01)
    assert curves[0][-1] < 0.9 * curves[0][0]
    assert curves[0] != curves[1]


@needs_compiler
@pytest.mark.parametrize("decoupled", [True, False])
def test_adam_matches_its_torch_path(decoupled):
    results = []
    for looped in (True, False):
        torch.manual_seed(7)
        parameters = [torch.randn(size).requires_grad_() for size in ((301, 70), (7,), ())]
        adam = Adam([(parameters[:2], 0.3), (parameters[2:], 0.0)], (0.9, 0.98), 1e-8, decoupled, looped)
        norms = []
        for update in range(10):
            for parameter in parameters:
                parameter.grad = torch.randn(parameter.shape) * 10.0**-update
            if update % 2:
                parameters[0].grad = torch.randn(70, 301).T  # as torch hands over a transposed product
            norms.append(clip_gradients(parameters, 1.0, looped))
            adam.step(0.01)
        results.append([*parameters, *adam.tensors().values(), torch.tensor(norms)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-6)
