"""Counts of parameters, bytes and operations, against torch's own and those of published systems."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tinylm.model.describe import describe, summary
from tinylm.model.transformer import TinyLM
from tinylm.train.optimizers import Adam

VARIANTS = [
    {},
    {"heads": 5, "layers": 3},
    {"head_width": 11, "qkv_bias": False, "attention_bias": False},
    {"norm": "post", "final_norm": False, "norm_kind": "rms", "tied_output": False},
    {"norm_kind": "std", "positions": "learned", "output_bias": True},
    {"positions": "none", "tied_output": False, "output_bias": True, "qkv_bias": False},
    {"embedding": "frozen", "output_bias": True},
]


def full_batch(model: TinyLM) -> torch.Tensor:
    return torch.randint(3, model.vocab_size, (4, model.settings.context))


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_operations_are_those_that_torch_counts(new_model, settings):
    model = new_model(**settings).train()
    ids = full_batch(model)
    with FlopCounterMode(display=False) as forward, torch.no_grad():
        model(ids)
    with FlopCounterMode(display=False) as training:
        model.loss(ids, ids).backward()
    totals = summary(model)
    assert totals["forward_flop_per_token"] * ids.numel() == forward.get_total_flops()
    if settings.get("embedding") != "frozen":  # whose gradient is not computed
        assert totals["training_flop_per_token"] * ids.numel() == training.get_total_flops()


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_parameters_and_bytes_are_those_of_the_model(new_model, settings):
    model = new_model(**settings).float()
    ids = full_batch(model)
    model.loss(ids, ids).backward()
    totals = summary(model)
    parts = describe(model)
    assert any(f" {model.settings.activation} ->" in part.shape for part in parts)
    by_kind = dict.fromkeys(("embedding", "blocks", "output", "norms"), 0)
    for name, parameter in model.named_parameters():
        kind = name.partition(".")[0].replace("_bias", "").replace("positions", "embedding")
        by_kind["norms" if "norm" in name else kind] += parameter.numel()
    parameters = list(model.parameters())
    trainable = [p for p in parameters if p.requires_grad]
    assert totals["parameters_by_part"] == by_kind
    assert totals["parameters"] == sum(by_kind.values()) == sum(p.parameters for p in parts)
    assert totals["parameters_trainable"] == sum(p.numel() for p in trainable)
    assert totals["parameters_trainable"] == sum(p.parameters for p in parts if p.trainable)
    assert totals["weight_bytes"] == sum(p.nbytes for p in parameters)
    assert totals["gradient_bytes"] == sum(p.grad.nbytes for p in trainable)
    adam = Adam(trainable, (0.9, 0.99), 1e-8, 0.0, True)
    assert totals["optimizer_bytes"] == sum(t.nbytes for t in adam.first + adam.second)
    assert totals["kv_cache_bytes_per_row"] == model.new_cache(1).nbytes


def test_muon_keeps_one_number_for_each_of_the_blocks_weights(new_model):
    model = new_model()
    weights = sum(p.nbytes for p in model.blocks.parameters() if p.dim() == 2)
    assert summary(model)["optimizer_bytes"] - summary(model, "muon")["optimizer_bytes"] == weights
