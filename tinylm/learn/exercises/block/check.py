"""Oracle: PyTorch's TransformerEncoderLayer in float64 (pre-norm, gelu, causal)."""

import torch
from torch import nn
from torch.nn import functional as F

from tinylm.learn.expect import drawn, expect, require


def _weights(width, inner, seed):
    shapes = {"gain1": (width,), "bias1": (width,), "qkv": (3 * width, width), "out": (width, width),
              "gain2": (width,), "bias2": (width,), "up": (inner, width), "down": (width, inner)}  # fmt: skip
    return {name: drawn(seed + i, *shape) for i, (name, shape) in enumerate(shapes.items())}


def _oracle(x, weights, heads, norm_first=True, mask=True):
    width = x.shape[-1]
    layer = nn.TransformerEncoderLayer(
        width, heads, len(weights["up"]), 0.0, F.gelu, 1e-5, batch_first=True, norm_first=norm_first
    ).double()
    names = {"norm1.weight": "gain1", "norm1.bias": "bias1", "norm2.weight": "gain2", "norm2.bias": "bias2",
             "self_attn.in_proj_weight": "qkv", "self_attn.out_proj.weight": "out",
             "linear1.weight": "up", "linear2.weight": "down"}  # fmt: skip
    state = {name: torch.zeros_like(value) for name, value in layer.state_dict().items()}
    state |= {name: weights[own] for name, own in names.items()}
    layer.load_state_dict(state)
    later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    with torch.no_grad():
        return layer(x, src_mask=later if mask else None)


def _suspects(x, weights, heads):
    none = {name: value * 0 for name, value in weights.items()}
    attention = _oracle(x, {**weights, "down": none["down"]}, heads)
    feed_forward = _oracle(x, {**weights, "out": none["out"]}, heads)
    both = _oracle(x, weights, heads)

    def feed(z, activation):
        z = F.layer_norm(z, z.shape[-1:], weights["gain2"], weights["bias2"])
        return activation(z @ weights["up"].T) @ weights["down"].T

    normed = F.layer_norm(x, x.shape[-1:], weights["gain1"], weights["bias1"])
    sum_of_normed = normed + attention - x
    both_of_normed = sum_of_normed + feed(sum_of_normed, F.gelu)
    relu = attention + feed(attention, F.relu)
    twice = attention + feed(
        F.layer_norm(x, x.shape[-1:], weights["gain1"], weights["bias1"]), F.gelu
    )
    return {
        "the feed-forward layer starts from the x that came in, not from the sum": attention
        + feed_forward
        - x,
        "the norm comes after the sum; in pre-norm it comes before each part": _oracle(
            x, weights, heads, False
        ),
        "the first residual connection is missing": _oracle_without_residual(
            x, weights, heads, attention
        ),
        "the second residual connection is missing": both - attention,
        "the feed-forward layer is missing": attention,
        "the attention is missing": feed_forward,
        "the activation is gelu, not relu": relu,
        "the activation is the exact gelu, not its approximation by tanh": attention
        + feed(attention, lambda z: F.gelu(z, approximate="tanh")),
        "gelu is missing": attention + feed(attention, lambda z: z),
        "the second norm has gain2 and bias2": _oracle(
            x, {**weights, "gain2": weights["gain1"], "bias2": weights["bias1"]}, heads
        ),
        "attention sees later positions: is_causal=True": _oracle(x, weights, heads, mask=False),
        "the output weights are missing: joined(z) @ out.T": _oracle(
            x, {**weights, "out": torch.eye(x.shape[-1]).double()}, heads
        ),
        "out is (D, D) and multiplies as out.T": _oracle(
            x, {**weights, "out": weights["out"].T}, heads
        ),
        "the residual connection adds x, not norm1(x)": both_of_normed,
        "the second norm is applied to the result of the first; apply it to the new x": twice,
    }


def _oracle_without_residual(x, weights, heads, attention):
    only = attention - x
    return only + _oracle(only, {**weights, "out": weights["out"] * 0}, heads) - only


def nothing_added(block):
    """with zero output weights, x comes back unchanged"""
    weights = _weights(2, 3, 1)
    weights |= {"out": weights["out"] * 0, "down": weights["down"] * 0}
    given = {"x": drawn(9, 1, 2, 2), "weights": weights, "heads": 1}
    expect(block, given, given["x"], {
        "a residual connection is missing": 0 * given["x"],
        **_suspects(**given),
        "the norm comes after the sum; in pre-norm it comes before each part": _oracle(
            **given, norm_first=False
        ),
    })  # fmt: skip


def one_token(block):
    """one token: attention returns its value"""
    given = {"x": drawn(2, 1, 1, 3), "weights": _weights(3, 2, 33), "heads": 1}
    expect(block, given, _oracle(**given), _suspects(**given))


def equals_pytorch(block):
    """equals PyTorch's layer in float64"""
    for seed, (batch, length, width, heads) in enumerate(
        [(1, 2, 2, 1), (1, 3, 4, 2), (2, 5, 6, 3)]
    ):
        given = {
            "x": drawn(seed, batch, length, width),
            "weights": _weights(width, 5, seed),
            "heads": heads,
        }
        expect(block, given, _oracle(**given), _suspects(**given))


def is_causal(block):
    """a changed last token changes no earlier row"""
    x = drawn(4, 1, 4, 4)
    changed = x.clone()
    changed[:, 3] += 1.0
    weights = _weights(4, 5, 5)
    before = block(x, weights, 2)[:, :3]
    after = block(changed, weights, 2)[:, :3]
    require(torch.equal(before, after), "rows 0 to 2 changed", "attention sees a later position: is_causal=True",
            before=before, after=after)  # fmt: skip
