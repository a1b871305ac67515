import pytest
import torch

from tinylm.train import precision
from tinylm.train.precision import resolved
from tinylm.train.trainer import Trainer

CPU = torch.device("cpu")


@pytest.mark.parametrize(("fast", "expected"), [(True, "bf16"), (False, "fp32")])
def test_auto_is_bf16_where_the_machine_multiplies_in_it(
    monkeypatch, new_settings, new_model, new_batches, fast, expected
):
    monkeypatch.setattr(precision, "multiplies_in_bf16", lambda device: fast)
    assert (
        Trainer(new_model(), new_batches(), new_settings(precision="auto")).settings.precision
        == expected
    )


def test_tf32_is_for_cuda(new_settings):
    cuda = torch.device("cuda")
    found = [resolved(new_settings(precision="tf32"), device).precision for device in (CPU, cuda)]
    assert found == ["fp32", "tf32"]


@pytest.mark.parametrize(
    ("device", "chosen", "recompute", "compiled"),
    [
        ("cuda", "true", "none", "true"),
        ("cuda", "auto", "none", "true"),
        ("cuda", "false", "none", "false"),
        ("cuda", "true", "blocks", "false"),
        ("cpu", "true", "none", "false"),
        ("cpu", "auto", "none", "false"),
    ],
)
def test_torch_compiles_blocks_on_cuda_only(new_settings, device, chosen, recompute, compiled):
    settings = new_settings(compile=chosen, recompute=recompute)
    assert resolved(settings, torch.device(device)).compile == compiled


@pytest.mark.parametrize("chosen", ["fp32", "bf16"])
def test_what_was_chosen_stays(monkeypatch, new_settings, chosen):
    monkeypatch.setattr(precision, "multiplies_in_bf16", lambda device: chosen == "fp32")
    assert resolved(new_settings(precision=chosen), CPU).precision == chosen


def test_auto_is_fp32_on_a_processor_without_the_instructions(monkeypatch, new_settings):
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: False)
    assert resolved(new_settings(precision="auto"), CPU).precision == "fp32"
