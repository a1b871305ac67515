import dataclasses

import numpy as np
import pytest
import torch

from tinylm.evaluate.ablation import ablate
from tinylm.model.transformer import TinyLM

STORIES = [
    np.array(ids)
    for ids in ([0, 5, 7, 4, 9, 1], [0, 8, 1], [0, 4, 4, 6, 10, 11, 12, 5, 1], [0], [0, 6, 6, 1])
]


@pytest.fixture
def exact(model):
    """The model in float64 with three heads of 5 columns and large outputs of each."""
    settings = dataclasses.replace(model.settings, heads=3, head_width=5, attention_bias=True)
    torch.manual_seed(5)
    model = TinyLM(settings, torch.randn(len(model.embedding), 11)).double().eval()
    with torch.no_grad():
        for block in model.blocks:
            block.attention.out.weight.normal_()
            block.attention.out.bias.normal_()
    return model


def columns(model, head):
    return slice(5 * head, 5 * head + 5)


def story_nats(model):
    nats = []
    for ids in STORIES:
        if len(ids) > 1:
            row = torch.from_numpy(ids)
            nats.append(float(model.token_loss(row[None, :-1], row[None, 1:]).sum()))
    return np.array(nats)


def test_losses_are_those_of_models_without_the_head(exact):
    table = ablate(exact, STORIES, 200, 1)
    whole, tokens = story_nats(exact), sum(len(ids) - 1 for ids in STORIES)
    assert [(row["layer"], row["head"]) for row in table] == [
        (i, j) for i in (1, 2) for j in (1, 2, 3)
    ]
    for row in table:
        attention = exact.blocks[row["layer"] - 1].attention
        weight = attention.out.weight.detach().clone()
        with torch.no_grad():
            attention.out.weight[:, columns(exact, row["head"] - 1)] = 0
            without = story_nats(exact)
            attention.out.weight.copy_(weight)
        assert row["loss_increase"] == pytest.approx((without - whole).sum() / tokens, abs=1e-9)
        assert row["low"] <= row["loss_increase"] <= row["high"]


def test_without_a_head_that_adds_nothing_the_loss_is_the_same(exact):
    with torch.no_grad():
        exact.blocks[1].attention.out.weight[:, columns(exact, 2)] = 0
    table = ablate(exact, STORIES, 100, 1)
    silent = table[-1]
    assert (silent["layer"], silent["head"]) == (2, 3)
    assert silent["loss_increase"] == silent["low"] == silent["high"] == 0
