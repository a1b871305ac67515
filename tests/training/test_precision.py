import pytest
import torch

from tinylm.training import precision
from tinylm.training.precision import resolved
from tinylm.training.trainer import Trainer

CPU = torch.device("cpu")


@pytest.mark.parametrize(("fast", "expected"), [(True, "bf16"), (False, "fp32")])
def test_auto_is_bf16_where_the_machine_multiplies_in_it(
    monkeypatch, new_settings, new_model, new_batches, fast, expected
):
    monkeypatch.setattr(precision, "multiplies_in_bf16", lambda device: fast)
    assert Trainer(new_model(), new_batches(), new_settings(precision="auto")).settings.precision == expected


@pytest.fixture
def tf32_off():
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = False


@pytest.mark.usefixtures("tf32_off")
def test_tf32_is_asked_for_and_only_on_cuda(new_settings):
    cuda = torch.device("cuda")
    assert [resolved(new_settings(precision="tf32"), d).precision for d in (CPU, cuda)] == ["fp32", "tf32"]
    for chosen, device, allowed in (("tf32", CPU, False), ("tf32", cuda, True), ("fp32", cuda, False)):
        precision.choose_products(chosen, device)
        assert torch.backends.cuda.matmul.allow_tf32 is allowed


@pytest.mark.parametrize("chosen", ["fp32", "bf16"])
def test_what_was_chosen_stays(monkeypatch, new_settings, chosen):
    monkeypatch.setattr(precision, "multiplies_in_bf16", lambda device: chosen == "fp32")
    assert resolved(new_settings(precision=chosen), CPU).precision == chosen


@pytest.mark.parametrize(("avx", "amx", "expected"), [(1, 0, True), (0, 1, True), (0, 0, False)])
def test_a_cpu_is_asked_for_its_instructions(monkeypatch, avx, amx, expected):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: bool(avx))
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: bool(amx))
    assert precision.multiplies_in_bf16(CPU) is expected
