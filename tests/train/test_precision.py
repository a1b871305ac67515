"""What is chosen for a machine: precision, compilation of blocks, native kernels."""

import pytest
import torch

from tinylm.base.config import InputError
from tinylm.train import precision as module
from tinylm.train.precision import resolved

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
        ("cuda", {"layout": "stream", "recompute": "blocks"}, ("true", "false", "torch")),
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


def test_recomputed_blocks_are_not_replayed_as_a_graph(new_settings):
    with pytest.raises(InputError, match=r"train\.cuda_graphs.*recompute: none"):
        resolved(new_settings(cuda_graphs="true", recompute="sqrt"), torch.device("cuda"))
