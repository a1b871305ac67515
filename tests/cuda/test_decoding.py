"""Decoding on a card: the tokens of the CPU in float32."""

import pytest
import torch

from tests.support.small import DECODE, random_model
from tinylm.decoding.beam_search import beam_search
from tinylm.decoding.sampling import generate
from tinylm.decoding.settings import DecodeSettings
from tinylm.kernels.decoding.graphed import GraphedStep

PROMPTS = [[5, 6, 7], [8, 9], [10, 11, 12, 13, 14]]


def new_model():
    torch.manual_seed(7)
    return random_model(101, 24, tied_output=False)


def texts(model, method, step=None):
    fixed = {
        "max_new_tokens": 30,
        "eos_id": None,
        "banned": [0],
        "step": step,
    }
    if isinstance(method, int):
        return [best.ids for best, *_ in beam_search(model, PROMPTS, width=method, **fixed)]
    decode = DecodeSettings(**(DECODE | {"temperature": 0.0 if method == "greedy" else 0.8}))
    return [row.ids for row in generate(model, PROMPTS, settings=decode, **fixed)]


@pytest.mark.parametrize("method", ["greedy", "sample", 1, 5, 10])
def test_replayed_graphs_give_the_texts_of_the_cpu(device, method):
    model = new_model().to(device)
    step = GraphedStep(model)
    for _ in range(2):  # the second time, nothing is recorded
        assert texts(model, method, step) == texts(new_model(), method)
