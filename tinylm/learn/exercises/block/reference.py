import torch
from torch.func import functional_call

from tinylm.model.ops import REFERENCE
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import Block, causal_mask


class _Block(Block):
    forward = Block.forward  # as it is now: a run replaces it


def block(x, weights, heads):
    settings = ModelSettings(
        layers=1, heads=heads, head_width=None, feed_forward=len(weights["up"]), context=x.shape[1],
        dropout=0.0, norm="pre", norm_kind="layer", norm_eps=1e-5, final_norm=True, positions="none",
        activation="gelu", init="scaled", qkv_bias=False, attention_bias=False,
        tied_output=True, output_bias=False, embedding="tuned",
    )  # fmt: skip
    reference = _Block(x.shape[-1], settings, REFERENCE).to(x.dtype)
    names = {"norm1.gain": "gain1", "norm1.bias": "bias1", "norm2.gain": "gain2", "norm2.bias": "bias2",
             "attention.qkv.weight": "qkv", "attention.out.weight": "out",
             "feed_forward.up.weight": "up", "feed_forward.down.weight": "down"}  # fmt: skip
    state = {name: weights[key] for name, key in names.items()}
    state["feed_forward.up.bias"] = x.new_zeros(len(weights["up"]))  # the exercise has no biases
    state["feed_forward.down.bias"] = x.new_zeros(x.shape[-1])
    positions = torch.arange(x.shape[1])
    return functional_call(reference, state, (x, causal_mask(positions[None], positions, x.dtype)))
