import dataclasses

import pytest
import torch

from tinylm.model.transformer import in_order
from tinylm.train import compiling
from tinylm.train.compiling import RunCompiled, has_compiler, why_not_compiled
from tinylm.train.loop import train
from tinylm.train.precision import resolved
from tinylm.train.trainer import Trainer

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"compile": "true"}, ""),
        ({"compile": "false"}, "train.compile is false"),
        ({"compile": "auto"}, "auto: nowhere was it measured to pay"),
        ({"compile": "true", "recompute": "sqrt"}, "train.recompute"),
        ({"compile": "true", "processes": 2}, "several processes"),
    ],
)
def test_what_is_compiled_is_decided_and_said(monkeypatch, new_settings, changes, why):
    monkeypatch.setattr(compiling, "has_compiler", lambda device: True)
    settings = new_settings(**changes)
    found = why_not_compiled(settings, CPU)
    assert found.startswith(why)
    assert bool(found) == bool(why)
    assert resolved(settings, CPU).compile == ("false" if why else "true")


def test_without_a_compiler_a_run_goes_uncompiled_and_says_so(
    monkeypatch, tmp_path, new_model, new_batches, new_settings
):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = new_settings(compile="true", layout="stream")
    assert not has_compiler(CPU)
    assert "no compiler" in why_not_compiled(settings, CPU)
    trainer = Trainer(new_model(settings), new_batches(layout="stream"), settings)
    assert trainer.settings.compile == "false"
    assert trainer.model.run_blocks is in_order
    trainer.update(trainer.next_batches())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_one_compilation_serves_a_run_and_changes_nothing_in_what_it_learns(
    monkeypatch, new_model, new_batches, held_out, new_settings, precision
):
    from torch._dynamo.testing import CompileCounter

    counter, compiled = CompileCounter(), torch.compile
    monkeypatch.setattr(compiling, "has_compiler", lambda device: True)
    monkeypatch.setattr(
        torch, "compile", lambda f, **how: compiled(f, **how | {"backend": counter})
    )
    settings = new_settings(layout="stream", precision=precision, tokens=3000, compile="true")
    losses = []
    for chosen in (settings, dataclasses.replace(settings, compile="false")):
        batches = new_batches(layout="stream")
        shapes = {tuple(batches.batch(index).inputs.shape) for index in range(len(batches))}
        assert len(shapes) > 1  # a ragged batch is among them
        model = new_model(chosen)
        losses.append(train(model, batches, lambda: held_out("stream"), chosen).curves.train)
        assert isinstance(model.run_blocks, RunCompiled) == (chosen.compile == "true")
    assert counter.frame_count == 1
    torch.testing.assert_close(
        *map(torch.tensor, losses), rtol=1e-5 if precision == "fp32" else 0.02, atol=0
    )
