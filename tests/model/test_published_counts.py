"""Parameters of the published systems, counted on models of shapes alone."""

import pytest
import torch

from tinylm.model.describe import describe, summary
from tinylm.model.transformer import TinyLM

D = {
    "layers": 6, "heads": 8, "feed_forward": 2048, "context": 64, "norm": "post", "activation": "relu",
    "qkv_bias": False, "tied_output": False, "output_bias": True
}  # fmt: skip
E = {"layers": 2, "heads": 1, "feed_forward": 128, "context": 50, "norm_kind": "rms"}
A = {
    "layers": 4, "heads": 6, "feed_forward": 1200, "context": 64, "qkv_bias": False, "attention_bias": False,
    "output_bias": True
}  # fmt: skip
B = {"layers": 3, "heads": 8, "feed_forward": 2048, "context": 64, "norm_kind": "std"}
UNTIED = {"tied_output": False}
FROZEN = {"tied_output": False, "embedding": "frozen"}


@pytest.mark.parametrize(
    ("settings", "vocab_size", "width", "parameters", "trainable"),
    [
        (D, 50_257, 512, 70_419_537, 70_419_537),
        (E | UNTIED, 500, 128, 326_784, 326_784),
        (A | FROZEN, 14_886, 300, 13_277_886, 8_812_086),
        (A, 14_886, 300, 8_812_086, 8_812_086),
        (B | UNTIED, 10_004, 300, 10_783_644, 10_783_644),
        (B | UNTIED | {"head_width": 37}, 10_004, 300, 10_769_208, 10_769_208),
    ],
    ids=["D", "E", "A", "A, tied", "B", "B, heads of 37"],
)
def test_a_published_system_has_its_parameters(
    new_settings, settings, vocab_size, width, parameters, trainable
):
    with torch.device("meta"):
        model = TinyLM(new_settings(**settings), torch.empty(vocab_size, width))
    totals = summary(model)
    assert (totals["parameters"], totals["parameters_trainable"]) == (parameters, trainable)


def test_d_part_by_part(new_settings):
    with torch.device("meta"):
        model = TinyLM(new_settings(**D), torch.empty(50_257, 512))
    by_name: dict[str, int] = {}
    for part in describe(model):
        name = part.name if part.block is None else "blocks"
        by_name[name] = by_name.get(name, 0) + part.parameters
    assert by_name == {
        "embedding": 25_731_584,
        "positions": 0,
        "blocks": 18_905_088,
        "final norm": 1_024,
        "output": 25_781_841,
    }
