import pytest
import torch

from tests.support.small import needs_compiler
from tinylm.host.runtime import conditions
from tinylm.kernels.library import FLAGS
from tinylm.model.ops import REFERENCE
from tinylm.train import acceleration
from tinylm.train.numeric_environment import numeric_environment
from tinylm.train.trainer import Trainer

CPU = torch.device("cpu")


@needs_compiler
def test_kernels_are_known_by_what_was_compiled(new_settings, monkeypatch, tmp_path):
    """The same wherever the cache is; other flags are other kernels; without a compiler, torch."""

    def kernels(precision="bf16"):
        return numeric_environment(conditions(CPU, 1), new_settings(precision=precision), CPU)

    first = kernels()["kernels"]
    assert first.startswith("native ")
    assert kernels("fp32")["kernels"] == "torch"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kernels()["kernels"] == first
    monkeypatch.setattr("tinylm.kernels.library.FLAGS", (*FLAGS, "-ffast-math"))
    assert kernels()["kernels"] != first
    monkeypatch.setattr(acceleration, "why_not_native", lambda *_: "no C++ compiler")
    assert kernels()["kernels"] == "torch"


def test_auto_is_named_as_what_it_means_here(new_settings):
    settings = new_settings(precision="auto", compile="auto")
    environment = numeric_environment(conditions(CPU, 3), settings, CPU)
    assert environment["precision"] in ("fp32", "bf16")
    assert (environment["compile"], environment["threads"]) == ("false", 3)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_training_works_without_the_package_of_kernels(
    monkeypatch, new_model, new_batches, new_settings, precision
):
    monkeypatch.setattr(acceleration, "kernels", None)
    settings = new_settings(precision=precision)
    model = new_model(settings)
    assert all(part.ops is REFERENCE for part in model.modules() if hasattr(part, "ops"))
    assert acceleration.why_not_native("bf16", CPU)
    trainer = Trainer(model, new_batches(), settings)
    losses = [trainer.update(trainer.next_batches())[0] for _ in range(10)]
    assert losses[-1] < losses[0]
