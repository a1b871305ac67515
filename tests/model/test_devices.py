"""Every tensor is made where its inputs are. On the device "meta", which has shapes and no numbers, a tensor that was
made on the CPU by mistake is an error, as it would be on a GPU."""

from typing import Any

import pytest
import torch
from torch.fx.experimental import _config as meta_shapes

from tests.support.small import model_settings
from tinylm.model.transformer import TinyLM, causal_mask

KINDS: list[dict[str, Any]] = [
    {"positions": "learned", "norm": "post"},
    {"positions": "sinusoids", "heads": 2, "norm_kind": "rms", "output_bias": True},
    {"positions": "none", "norm_kind": "std", "dropout": 0.3},
]


def model_there(**settings: Any) -> TinyLM:
    return TinyLM(model_settings(tied_output=False, **settings), torch.randn(31, 19)).to("meta")


@pytest.fixture
def ids() -> torch.Tensor:
    return torch.zeros(5, 13, dtype=torch.int64, device="meta")


@pytest.fixture
def computing(monkeypatch):
    """Autocast knows the devices that compute only; which numbers are not zero is anybody's guess on this one."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: False)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.bfloat16)
    with meta_shapes.patch(meta_nonzero_assume_all_nonzero=True):
        yield


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_logits_and_losses_are_where_the_model_is(ids, settings, computing):
    model = model_there(**settings)
    assert (model(ids).device.type, model(ids).shape) == ("meta", (5, 13, 31))
    assert model.token_loss(ids, ids).shape == (5, 13)
    model.train()
    model.loss(ids, ids).backward()
    assert {p.grad.device.type for p in model.parameters()} == {"meta"}


def test_silent_heads_and_maps_are_where_the_model_is(ids):
    model = model_there()
    model.blocks[1].attention.silent = (0, 2)
    maps: list[torch.Tensor] = []
    assert model.hidden_states(ids, attention_weights_out=maps).device.type == "meta"
    assert {m.device.type for m in maps} == {"meta"}


def test_a_cache_is_where_the_model_is(ids):
    model = model_there()
    cache = model.new_cache(5, 7)
    cache.reserve(torch.tensor([3]))
    part = torch.zeros(5, 3, 4, 7, device="meta")
    keys, values = cache.store(1, part, part, ids[:, :4])
    assert (keys.device, keys.shape) == (values.device, values.shape) == (ids.device, (5, 3, 4, 7))
    assert cache.keys[0].device.type == "meta"


def test_the_mask_is_where_the_positions_are(ids):
    assert causal_mask(ids, ids[0], torch.float32).device.type == "meta"
