"""Every tensor is made where its inputs are.

The device "meta" has shapes and no numbers: a tensor made on the CPU by mistake is an error there, as on a GPU.
"""

import pytest
import torch
from torch.fx.experimental import _config as meta_shapes

from tests.support.small import model_settings
from tinylm.model.transformer import TinyLM


@pytest.mark.parametrize(
    "settings",
    [
        {"positions": "learned", "norm": "post"},
        {"positions": "sinusoids", "heads": 2, "norm_kind": "rms", "output_bias": True},
        {"positions": "none", "norm_kind": "std", "dropout": 0.3},
    ],
    ids=str,
)
def test_logits_losses_maps_and_caches_are_where_the_model_is(monkeypatch, settings):
    # autocast is for devices that compute, and which numbers are not zero is anybody's guess here
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: False)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.bfloat16)
    model = TinyLM(model_settings(tied_output=False, **settings), torch.randn(31, 19)).to("meta")
    ids = torch.zeros(5, 13, dtype=torch.int64, device="meta")
    maps: list[torch.Tensor] = []
    with meta_shapes.patch(meta_nonzero_assume_all_nonzero=True):
        assert (model(ids).device.type, model(ids).shape) == ("meta", (5, 13, 31))
        assert model.token_loss(ids, ids).shape == (5, 13)
        model.hidden_states(ids, attention_weights_out=maps)
        model.train()
        model.loss(ids, ids).backward()
    assert {m.device.type for m in maps} == {"meta"}
    assert {p.grad.device.type for p in model.parameters()} == {"meta"}
    assert model.new_cache(5, 7).keys[0].device.type == "meta"
