"""A TinyLM as GPT-2, or GPT-NeoX with rotary positions, with the same logits.

Stock transformers runs both without other code, and this module needs no transformers. What they
lack is folded into their weights in float64, so that one rounding remains:

- the embedding's scale, and the factor of tied output weights;
- heads that do not divide the stream: zero channels are added until equal heads have room;
- another epsilon than theirs: a norm of c x with epsilon e is a norm of x with epsilon e / c^2, so
  the residual stream is written c times as large;
- an output bias: a channel that is always 1, and a column of output weights that reads it.

Zero channels change a layer norm's mean and variance. So the mean over our D channels, which a
layer norm subtracts anyway, is removed from what is written; the variance is then D / W of ours.
"""

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor, nn

from tinylm.base.config import InputError
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import Block, Norm, TinyLM

EPSILON = 1e-5  # of every norm: converters take GPT-2's for granted
LEAST_EPS = 1e-20  # with less, the squares of the larger residual stream overflow float32

# Of a linear layer: weight (out, in) and bias (out). Of a norm: gain and bias.
Affine = tuple[Tensor, Tensor]
REQUIRED = {"norm": "pre", "norm_kind": "layer", "final_norm": "true"}
NAMES = {  # part: its name in (GPT-2, GPT-NeoX)
    "inputs": ("transformer.wte", "gpt_neox.embed_in"),
    "positions": ("transformer.wpe", ""),
    "block": ("transformer.h", "gpt_neox.layers"),
    "norm1": ("ln_1", "input_layernorm"),
    "qkv": ("attn.c_attn", "attention.query_key_value"),
    "out": ("attn.c_proj", "attention.dense"),
    "norm2": ("ln_2", "post_attention_layernorm"),
    "up": ("mlp.c_fc", "mlp.dense_h_to_4h"),
    "down": ("mlp.c_proj", "mlp.dense_4h_to_h"),
    "final_norm": ("transformer.ln_f", "gpt_neox.final_layer_norm"),
    "output": ("lm_head", "embed_out"),
}
KEYS = {  # setting: its key in config.json of (GPT-2, GPT-NeoX)
    "context": ("n_positions", "max_position_embeddings"),
    "width": ("n_embd", "hidden_size"),
    "layers": ("n_layer", "num_hidden_layers"),
    "heads": ("n_head", "num_attention_heads"),
    "feed_forward": ("n_inner", "intermediate_size"),
    "activation": ("activation_function", "hidden_act"),
    "norm_eps": ("layer_norm_epsilon", "layer_norm_eps"),
}


@dataclasses.dataclass(frozen=True)
class ExportedModel:
    """A model for transformers: class name, config.json, float64 tensors under its names."""

    architecture: str
    config: dict[str, Any]
    tensors: dict[str, Tensor]

    @property
    def parameters(self) -> int:
        """Number of weights, those that are tied once."""
        return sum(tensor.numel() for tensor in self.tensors.values())


def stock_problem(settings: ModelSettings) -> str:
    """Why neither architecture computes a model of these settings; or ''."""
    for name, allowed in REQUIRED.items():
        value = str(getattr(settings, name)).lower()
        if value != allowed:
            return f"model.{name} = {value}; allowed: {allowed}, or any with --format tinylm"
    if settings.norm_eps < LEAST_EPS:
        allowed = f"{LEAST_EPS} to 1.0, or any with --format tinylm"
        return f"model.norm_eps = {settings.norm_eps}; allowed: {allowed}"
    return ""


@dataclasses.dataclass(frozen=True)
class _Stream:
    """Our D residual channels in the W channels of the stock model: first D, then zeros.

    inner: channels of the feed-forward, where further ones are 0 as well: gelu(0) = relu(0) = 0.
    """

    width: int
    wide: int
    heads: int
    inner: int
    norm_eps: float

    @property
    def share(self) -> float:
        """The variance over W as a share of ours over D."""
        return self.width / self.wide

    @property
    def scale(self) -> float:
        """c, so that EPSILON on the stream is norm_eps on x."""
        return (EPSILON / (self.share * self.norm_eps)) ** 0.5

    def write(self, x: Tensor, dim: int = -1) -> Tensor:
        """The stream's channels for x.  (..., D, ...) -> (..., W, ...)"""
        x = x.movedim(dim, -1)
        if self.wide > self.width:
            x = x - x.mean(-1, keepdim=True)
        return (self.pad(x) * self.scale).movedim(-1, dim)

    def pad(self, x: Tensor) -> Tensor:
        """x on the first channels, zeros on the others.  (..., n) -> (..., W)"""
        return nn.functional.pad(x, (0, self.wide - x.shape[-1]))

    def norm(self, norm: Norm) -> Affine:
        """Gain and bias of a norm whose output is read through its first D channels.  (W), (W)"""
        gain = _exact(norm.gain)
        bias = torch.zeros_like(gain) if norm.bias is None else _exact(norm.bias)
        return self.pad(gain * self.share**0.5), self.pad(bias)

    def head_rows(self, rows: Tensor, queries: bool = False) -> Tensor:
        """Rows of our heads, with zeros up to the stock heads' width.  (inner, n) -> (W, n)

        Stock scores are divided by the root of the stock head's width, ours by that of our own.
        Queries compensate.
        """
        room = self.wide // self.heads
        padded = []
        for head in rows.chunk(self.heads):
            width = len(head)
            factor = (room / width) ** 0.5 if queries else 1.0
            padded.append(nn.functional.pad(head * factor, (0, 0, 0, room - width)))
        return torch.cat(padded)


def _new_stream(settings: ModelSettings, width: int, multiple: int) -> _Stream:
    """The narrowest stream with room for the heads and a channel for the output bias."""
    heads = settings.heads
    head_width = settings.width_of_heads(width)
    least = max(width + settings.output_bias, heads * head_width)
    wide = _rounded_up(least, math.lcm(heads, multiple))
    inner = _rounded_up(settings.feed_forward, multiple)
    return _Stream(width, wide, heads, inner, settings.norm_eps)


def _rounded_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _exact(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().double()


def _affine(layer: nn.Linear) -> Affine:
    weight = _exact(layer.weight)
    bias = weight.new_zeros(weight.shape[0]) if layer.bias is None else _exact(layer.bias)
    return weight, bias


def _qkv(stream: _Stream, block: Block, by_head: bool) -> Affine:
    """Queries, then keys, then values as GPT-2 has them; or the three of each head together."""
    weights, biases = _affine(block.attention.qkv)
    rows = torch.cat([weights, biases[:, None]], 1)
    parts = []
    for number, part in enumerate(rows.chunk(3)):
        padded = stream.head_rows(part, queries=number == 0)
        parts.append(padded.unflatten(0, (stream.heads, -1)))
    joined = torch.stack(parts, 1 if by_head else 0).flatten(0, 2)
    return stream.pad(joined[:, :-1]), joined[:, -1]


def _block_parts(stream: _Stream, block: Block, by_head: bool) -> dict[str, Affine]:
    """One block on the stream: y = W x + b for each linear layer, gain and bias for each norm."""
    out, out_bias = _affine(block.attention.out)
    up, up_bias = _affine(block.feed_forward.up)
    down, down_bias = _affine(block.feed_forward.down)
    more = stream.inner - up.shape[0]
    up = nn.functional.pad(up, (0, 0, 0, more))
    down = nn.functional.pad(down, (0, more))
    out_rows = stream.head_rows(out.T)
    return {
        "norm1": stream.norm(block.norm1),
        "qkv": _qkv(stream, block, by_head),
        "out": (stream.write(out_rows).T, stream.write(out_bias)),
        "norm2": stream.norm(block.norm2),
        "up": (stream.pad(up), nn.functional.pad(up_bias, (0, more))),
        "down": (stream.write(down, 0), stream.write(down_bias)),
    }


def _ends(model: TinyLM, stream: _Stream) -> dict[str, Tensor]:
    """What is before and after the blocks; no output weights if the input vectors serve."""
    assert isinstance(model.final_norm, Norm)
    vectors = _exact(model.embedding)
    scale = float(model.embedding_scale)
    factor = scale * model.width**-0.5  # of tied output weights
    gain, shift = stream.norm(model.final_norm)
    tensors = {"inputs.weight": stream.write(vectors * scale)}
    bias = model.output_bias if model.output is None else model.output.bias
    if model.output is None and bias is None and stream.wide == stream.width:
        gain = gain * (factor / (scale * stream.scale))
        shift = shift * (factor / (scale * stream.scale))
    else:
        output = vectors * factor if model.output is None else _exact(model.output.weight)
        if bias is not None:
            shift[model.width] = 1.0  # the channel that the bias is read from
            output = torch.cat([output, _exact(bias)[:, None]], 1)
        tensors["output.weight"] = stream.pad(output)
    return tensors | {"final_norm.weight": gain, "final_norm.bias": shift}


def _config(model: TinyLM, stream: _Stream, column: int) -> dict[str, Any]:
    """What both architectures share of config.json, by the names in a column of KEYS."""
    settings = dataclasses.asdict(model.settings)
    sizes = {"width": stream.wide, "feed_forward": stream.inner, "norm_eps": EPSILON}
    values = settings | sizes
    config = {names[column]: values[setting] for setting, names in KEYS.items()}
    return config | {"vocab_size": model.vocab_size, "dtype": "float32"}


def _gpt2_config(settings: ModelSettings) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "embd_pdrop": settings.dropout,
        "attn_pdrop": settings.dropout,
        "resid_pdrop": settings.dropout,
    }


def _neox_config(settings: ModelSettings, stream: _Stream) -> dict[str, Any]:
    head_width = settings.head_width or stream.width // settings.heads
    return {
        "model_type": "gpt_neox",
        "architectures": ["GPTNeoXForCausalLM"],
        "rotary_pct": head_width / (stream.wide // stream.heads),
        "rotary_emb_base": 10000,
        "use_parallel_residual": False,
        "attention_bias": True,
        "hidden_dropout": settings.dropout,
        "attention_dropout": settings.dropout,
    }


def stock_form(model: TinyLM, multiple: int = 1) -> ExportedModel:
    """A stock model that computes the same function of the ids.

    Its widths are multiples of `multiple`. Raises InputError if there is none.
    """
    if problem := stock_problem(model.settings):
        raise InputError(problem)
    is_neox = model.settings.positions == "rotary"
    column = 1 if is_neox else 0
    stream = _new_stream(model.settings, model.width, multiple)
    parts = _ends(model, stream)
    if not is_neox:
        none = torch.zeros(model.settings.context, model.width)
        positions = none if model.positions is None else model.positions
        parts["positions.weight"] = stream.write(_exact(positions))
    tensors = {}
    for name, tensor in parts.items():
        part, _, kind = name.partition(".")
        tensors[f"{NAMES[part][column]}.{kind}"] = tensor
    for layer, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        for part, (weight, bias) in _block_parts(stream, block, by_head=is_neox).items():
            name = f"{NAMES['block'][column]}.{layer}.{NAMES[part][column]}"
            # GPT-2 keeps the weights of its linear layers the other way round: (in, out)
            tensors[f"{name}.weight"] = weight if is_neox or weight.dim() == 1 else weight.T
            tensors[f"{name}.bias"] = bias
    config = _config(model, stream, column)
    config["tie_word_embeddings"] = "output.weight" not in parts
    if is_neox:
        config |= _neox_config(model.settings, stream)
    else:
        config |= _gpt2_config(model.settings)
    return ExportedModel(config["architectures"][0], config, tensors)
