"""The logit lens against models that end after each layer."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.support.small import model_settings
from tinylm.evaluate.logit_lens import logit_lens
from tinylm.model.transformer import TinyLM

VOCAB = 60


@pytest.fixture
def model():
    torch.manual_seed(2)
    settings = model_settings(layers=3, heads=2, context=51)
    return TinyLM(settings, torch.randn(VOCAB, 12)).eval()


def test_each_layers_prediction_is_that_of_a_model_cut_there(model):
    rows = [np.array([1, 5, 9, 9, 2, 30]), np.array([3, 4]), np.array([7])]
    result = logit_lens(model, rows)
    assert [row["layer"] for row in result] == [0, 1, 2, 3]
    blocks = list(model.blocks)
    for depth, row in enumerate(result):
        model.blocks = torch.nn.ModuleList(blocks[:depth])
        logits = [model(torch.as_tensor(ids[None, :-1]))[0].detach() for ids in rows[:2]]
        nats = sum(
            float(F.cross_entropy(x, torch.as_tensor(ids[1:]), reduction="sum"))
            for x, ids in zip(logits, rows)
        )
        assert row["nats_per_token"] == pytest.approx(nats / 6, rel=1e-5)
    assert result[-1]["same_as_last"] == 1.0
    assert logit_lens(model, [np.array([7])]) == []
