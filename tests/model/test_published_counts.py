"""Parameters of the published systems, counted on models of shapes alone."""

import pytest
import torch

from tinylm.model.describe import describe, summary
from tinylm.model.transformer import TinyLM

D = {
    "layers": 6, "heads": 8, "feed_forward": 2048, "context": 64, "norm": "post", "activation": "relu",
    "qkv_bias": False, "tied_output": False, "output_bias": True
}  # fmt: skip
E = {
    "layers": 2,
    "heads": 1,
    "feed_forward": 128,
    "context": 50,
    "norm_kind": "rms",
    "tied_output": False,
}
A = {
    "layers": 4, "heads": 6, "feed_forward": 1200, "context": 64, "qkv_bias": False, "attention_bias": False,
    "output_bias": True
}  # fmt: skip
B = {
    "layers": 3,
    "heads": 8,
    "feed_forward": 2048,
    "context": 64,
    "norm_kind": "std",
    "tied_output": False,
}


def counted(settings, vocab_size: int, width: int) -> dict:
    with torch.device("meta"):
        model = TinyLM(settings, torch.empty(vocab_size, width))
    totals, parts = summary(model), describe(model)
    found = {
        "embedding": sum(p.parameters for p in parts if p.kind == "embedding"),
        "blocks": sum(p.parameters for p in parts if p.block is not None),
        "final norm": sum(p.parameters for p in parts if p.name == "final norm"),
        "output": sum(p.parameters for p in parts if p.kind == "output"),
    }
    assert sum(found.values()) == totals["parameters"] == sum(p.numel() for p in model.parameters())
    return {**found, "all": totals["parameters"], "trainable": totals["parameters_trainable"]}


def test_d_part_by_part(new_settings):
    assert counted(new_settings(**D), 50_257, 512) == {
        "embedding": 25_731_584, "blocks": 18_905_088, "final norm": 1_024, "output": 25_781_841, "all": 70_419_537,
        "trainable": 70_419_537
    }  # fmt: skip


def test_e(new_settings):
    counts = counted(new_settings(**E), 500, 128)
    assert counts["all"] == counts["trainable"] == 326_784
    assert counts["embedding"] == counts["output"] == 500 * 128


def test_a_is_an_untied_biased_head_over_a_frozen_embedding(new_settings):
    """14,886 ids in all. Tied with a bias the trained ones are as many, but then the frozen vectors add none."""
    untied = counted(new_settings(**A, tied_output=False, embedding="frozen"), 14_886, 300)
    assert (untied["trainable"], untied["all"]) == (8_812_086, 13_277_886)
    tied = counted(new_settings(**A, tied_output=True), 14_886, 300)
    assert (tied["trainable"], tied["all"]) == (8_812_086, 8_812_086)
    with_specials = counted(
        new_settings(**A, tied_output=False, embedding="frozen"), 14_886 + 4, 300
    )
    assert with_specials["trainable"] != 8_812_086


@pytest.mark.parametrize(("head_width", "exact"), [(None, 10_783_644), (37, 10_769_208)])
def test_b_is_nearer_to_eleven_million_than_to_the_fifteen_printed(new_settings, head_width, exact):
    counts = counted(new_settings(**B, head_width=head_width), 10_004, 300)
    assert counts["all"] == exact
    assert round(exact / 1e6, 1) == 10.8
