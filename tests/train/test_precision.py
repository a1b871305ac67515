"""What is chosen for a machine: precision, compilation of blocks, native kernels."""

import pytest
import torch

from tests.support.small import needs_compiler
from tinylm.base.config import InputError
from tinylm.host.runtime import conditions
from tinylm.kernels.library import FLAGS
from tinylm.train import precision as module
from tinylm.train.precision import numeric_environment, resolved

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("chosen", "device", "fast", "expected"),
    [
        ("auto", "cpu", True, "bf16"),
        ("auto", "cpu", False, "fp32"),
        ("tf32", "cpu", True, "fp32"),
        ("tf32", "cuda", True, "tf32"),
        ("bf16", "cpu", False, "bf16"),
    ],
)
def test_auto_is_bf16_where_the_machine_multiplies_in_it(
    monkeypatch, new_settings, chosen, device, fast, expected
):
    monkeypatch.setattr(module, "multiplies_in_bf16", lambda device: fast)
    settings = resolved(new_settings(precision=chosen), torch.device(device))
    assert settings.precision == expected


@pytest.mark.parametrize(
    ("device", "changes", "expected"),
    [
        ("cpu", {}, ("false", "false", "own")),
        ("cuda", {}, ("false", "true", "torch")),
        ("cuda", {"layout": "stream"}, ("true", "true", "torch")),
        ("cuda", {"layout": "stream", "recompute": "blocks"}, ("false", "false", "torch")),
        ("cuda", {"compile": "true", "cuda_graphs": "false"}, ("true", "false", "torch")),
        (
            "cuda",
            {"layout": "stream", "compile": "false", "attention": "own"},
            ("false", "true", "own"),
        ),
    ],
)
def test_a_card_compiles_full_windows_and_replays_updates(new_settings, device, changes, expected):
    auto = {"compile": "auto", "cuda_graphs": "auto", "attention": "auto"}
    settings = resolved(new_settings(**(auto | changes)), torch.device(device))
    assert (settings.compile, settings.cuda_graphs, settings.attention) == expected


@pytest.mark.parametrize("key", ["compile", "cuda_graphs"])
def test_what_only_a_card_can_do_is_refused_elsewhere(new_settings, key):
    settings = new_settings(**{key: "true"})
    with pytest.raises(InputError, match=rf"train\.{key}"):
        resolved(settings, torch.device("cpu"))
    assert getattr(resolved(settings, torch.device("cuda")), key) == "true"
    assert new_settings(**{key: "true", "recompute": "sqrt"}).problems()


@needs_compiler
def test_kernels_are_identified_by_what_was_compiled(new_settings, monkeypatch, tmp_path):
    """The same wherever the cache is; other flags are other kernels; without a compiler, torch."""

    def kernels(precision="bf16"):
        settings = resolved(new_settings(precision=precision), CPU)
        return numeric_environment(conditions(CPU, 1), settings, CPU)["kernels"]

    first = kernels()
    assert first.startswith("native ")
    assert kernels("fp32") == "torch"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kernels() == first
    monkeypatch.setattr("tinylm.kernels.library.FLAGS", (*FLAGS, "-ffast-math"))
    assert kernels() != first
    monkeypatch.setattr(module, "why_not_native", lambda *_: "no C++ compiler")
    assert kernels() == "torch"
