"""The model of section `model` in plain code and float64, for every setting: what tinylm's logits are compared with.

The weights are those of a file in models/, by name. Nothing of tinylm is used.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Weights = dict[str, Tensor]
Settings = dict[str, Any]  # section `model` of params.yaml, or of models/config.json


def root_mean_square(x: Tensor, eps: float) -> Tensor:
    return torch.sqrt((x * x).mean(-1, keepdim=True) + eps)


def sample_deviation(x: Tensor, eps: float) -> Tensor:
    return torch.sqrt((x * x).sum(-1, keepdim=True) / (x.shape[-1] - 1)) + eps


def gelu(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


# Whether the mean is subtracted, and what the rest is divided by.
NORM_KINDS = {
    "layer": (True, root_mean_square),
    "rms": (False, root_mean_square),
    "std": (True, sample_deviation),
}
ACTIVATIONS = {"relu": lambda x: x.clamp(min=0), "gelu": gelu}
POSITIONS = ("sinusoids", "learned", "rotary", "none")
NORMS = ("pre", "post")


def chosen(
    table: dict[str, Callable[..., Tensor]] | tuple[str, ...], settings: Settings, key: str
) -> Any:
    """What a setting stands for; a value that has no plain code yet fails in a sentence."""
    value = settings[key]
    assert value in table, f"model.{key}: {value}: write its formula in tests/drawn/plain_model.py"
    return table[value] if isinstance(table, dict) else value


def angles(length: int, width: int) -> Tensor:
    """Position / 10000^(2i / width), of position and pair i of columns.  -> (T, ceil(width / 2))"""
    pair = torch.arange(0, width, 2, dtype=torch.float64)
    return torch.arange(length, dtype=torch.float64)[:, None] * 10000 ** (-pair / width)


def rotate(x: Tensor) -> Tensor:
    """Columns i and i + Dh / 2 are turned by angle i of the position.  (B, H, T, Dh) -> same"""
    turned = torch.polar(torch.ones(1, dtype=torch.float64), angles(x.shape[2], x.shape[3]))
    first, second = x.double().chunk(2, dim=-1)
    product = torch.complex(first, second) * turned
    return torch.cat([product.real, product.imag], dim=-1).to(x.dtype)


class PlainModel:
    """The model with these weights, all in one precision. Weights that require gradients get them.

    attention: weights of each layer in the last call, (B, H, T, T) each.
    """

    def __init__(
        self, weights: Weights, settings: Settings, dtype: torch.dtype = torch.float64
    ) -> None:
        self.weights = {name: tensor.to(dtype) for name, tensor in weights.items()}
        self.settings = settings
        self.attention: list[Tensor] = []

    def linear(self, x: Tensor, name: str, has_bias: bool) -> Tensor:
        y = x @ self.weights[f"{name}.weight"].T
        return y + self.weights[f"{name}.bias"] if has_bias else y

    def norm(self, x: Tensor, name: str) -> Tensor:
        is_centred, divisor = chosen(NORM_KINDS, self.settings, "norm_kind")
        if is_centred:
            x = x - self.mean(x)
        normed = x / divisor(self.again(x), self.settings["norm_eps"])
        return normed * self.weights[f"{name}.gain"] + self.weights.get(f"{name}.bias", 0.0)

    def mean(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, 1)"""
        return x.mean(-1, keepdim=True)

    def again(self, x: Tensor) -> Tensor:
        """Numbers that are used a second time, to divide themselves by. What is left of the gradient is a difference."""
        return x

    def embed(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B, T, D)"""
        x = self.weights["embedding"][ids] * self.weights["embedding_scale"]
        kind = chosen(POSITIONS, self.settings, "positions")
        length, width = x.shape[1:]
        if kind == "learned":
            return x + self.weights["positions"][:length]
        if kind == "sinusoids":
            table = torch.zeros(length, width, dtype=torch.float64)
            table[:, 0::2] = angles(length, width).sin()
            table[:, 1::2] = angles(length, width).cos()[:, : width // 2]
            return x + table.to(x.dtype)
        return x

    def attend(self, x: Tensor, name: str) -> Tensor:
        """Masked multi-head self-attention.  (B, T, D) -> (B, T, D)"""
        settings = self.settings
        qkv = self.linear(x, f"{name}.qkv", settings["qkv_bias"])
        head_width = qkv.shape[-1] // 3 // settings["heads"]
        assert head_width == (settings["head_width"] or x.shape[-1] // settings["heads"])
        parts = [
            part.unflatten(-1, (settings["heads"], head_width)) for part in qkv.chunk(3, dim=-1)
        ]
        queries, keys, values = (part.transpose(1, 2) for part in parts)  # (B, H, T, Dh)
        if settings["positions"] == "rotary":
            queries, keys = rotate(queries), rotate(keys)
        mixed = self.mix(queries / math.sqrt(head_width), keys, values).transpose(1, 2).flatten(2)
        return self.linear(mixed, f"{name}.out", settings["attention_bias"])

    def mix(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The values, weighted by the softmax of the causal scores.  (B, H, T, Dh) each -> same"""
        scores = queries @ keys.mT
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        self.attention.append(self.softmax(scores.masked_fill(later, -math.inf)))
        return self.attention[-1] @ values

    def softmax(self, scores: Tensor) -> Tensor:
        """Attention weights.  (B, H, T, T)"""
        weights = (scores - scores.detach().amax(-1, keepdim=True)).exp()
        return weights / self.again(weights).sum(-1, keepdim=True)

    def feed(self, x: Tensor, name: str) -> Tensor:
        activation = chosen(ACTIVATIONS, self.settings, "activation")
        return self.linear(activation(self.linear(x, f"{name}.up", True)), f"{name}.down", True)

    def block(self, x: Tensor, name: str) -> Tensor:
        if chosen(NORMS, self.settings, "norm") == "pre":
            x = x + self.attend(self.norm(x, f"{name}.norm1"), f"{name}.attention")
            return x + self.feed(self.norm(x, f"{name}.norm2"), f"{name}.feed_forward")
        x = self.norm(x + self.attend(x, f"{name}.attention"), f"{name}.norm1")
        return self.norm(x + self.feed(x, f"{name}.feed_forward"), f"{name}.norm2")

    def hidden(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B, T, D)"""
        x = self.embed(ids)
        self.attention = []
        for number in range(self.settings["layers"]):
            x = self.block(x, f"blocks.{number}")
        return self.norm(x, "final_norm") if self.settings["final_norm"] else x

    def __call__(self, ids: Tensor) -> Tensor:
        """Logits.  (B, T) -> (B, T, V)"""
        x = self.hidden(ids)
        if not self.settings["tied_output"]:
            return self.linear(x, "output", self.settings["output_bias"])
        # The embedding in unit mean square, and divided by sqrt(D) as a linear layer is at the start.
        scale = self.weights["embedding_scale"] / math.sqrt(x.shape[-1])
        bias = self.weights["output_bias"] if self.settings["output_bias"] else 0.0
        return x * scale @ self.weights["embedding"].T + bias


def forward(weights: Weights, model_settings: Settings, ids: Tensor) -> Tensor:
    """Logits in float64.  (B, T) -> (B, T, V)"""
    return PlainModel(weights, model_settings)(ids)


def attention_weights(weights: Weights, model_settings: Settings, ids: Tensor) -> Tensor:
    """Attention weights of every layer and head in float64.  (B, T) -> (layers, B, H, T, T)"""
    model = PlainModel(weights, model_settings)
    model.hidden(ids)
    return torch.stack(model.attention)
