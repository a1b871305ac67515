"""A TinyLM as GPT-2, or GPT-NeoX with rotary positions, with the same logits.

Stock transformers runs both without other code, and this module needs no transformers. What they
lack is folded into their weights in float64, so that one rounding remains:

- the embedding's scale, and the factor of tied output weights;
- heads that do not divide the width: zero channels are added until equal heads have room;
- another epsilon than theirs: a norm of c x with epsilon e is a norm of x with epsilon e / c^2, so
  the residual stream is written c times as large;
- an output bias: a channel that is always 1, and a column of output weights that reads it.

Zero channels change a layer norm's mean and variance. So the mean over our D channels, which a
layer norm subtracts anyway, is removed from what is written; the variance is then D / W of ours.
"""

import dataclasses
from typing import Any

import torch
from torch import Tensor, nn

from tinylm.base.config import InputError
from tinylm.model.ragged_heads import head_widths
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import Block, Norm, TinyLM

EPSILON = 1e-5  # of every norm: converters take GPT-2's for granted
LEAST_EPS = 1e-20  # with less, the squares of the larger residual stream overflow float32

# Of a linear layer: weight (out, in) and bias (out). Of a norm: gain and bias.
Affine = tuple[Tensor, Tensor]


@dataclasses.dataclass(frozen=True)
class StockForm:
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
    for name, value, allowed in (
        ("norm", settings.norm, "pre"),
        ("norm_kind", settings.norm_kind, "layer"),
        ("final_norm", settings.final_norm, True),
    ):
        if value != allowed:
            shown = str(value).lower()
            return (
                f"model.{name} = {shown}: neither GPT-2 nor GPT-NeoX has it; allowed: "
                f"{str(allowed).lower()}, or any with --format tinylm"
            )
    if settings.norm_eps < LEAST_EPS:
        return (
            f"model.norm_eps = {settings.norm_eps}: too small for float32; "
            f"allowed: {LEAST_EPS} to 1.0, or any with --format tinylm"
        )
    return ""


@dataclasses.dataclass(frozen=True)
class _Stream:
    """Our D residual channels in the W channels of the stock model: first D, then zeros."""

    width: int
    wide: int
    heads: int
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

    def head_rows(self, rows: Tensor, heads: int, queries: bool = False) -> Tensor:
        """Rows of our heads at the offsets of the stock heads.  (inner, n) -> (W, n)

        Stock scores are divided by the root of the stock head's width, ours by that of our own.
        Queries compensate.
        """
        widths = head_widths(rows.shape[0], heads)
        room = self.wide // self.heads
        padded = rows.new_zeros(self.wide, rows.shape[1])
        for head, part in enumerate(rows.split(widths)):
            factor = (room / widths[head]) ** 0.5 if queries else 1.0
            start = head * room
            padded[start : start + widths[head]] = part * factor
        return padded


def _new_stream(settings: ModelSettings, width: int, multiple: int) -> _Stream:
    """The narrowest stream with room for the heads and a channel for the output bias."""
    head_width = settings.head_width or -(-width // settings.heads)
    wide = width + 1 if settings.output_bias else width
    while True:
        counts = range(settings.heads, wide // head_width + 1)
        heads = next((count for count in counts if wide % count == 0), None)
        if heads is not None and wide % multiple == 0:
            return _Stream(width, wide, heads, settings.norm_eps)
        wide += 1


@dataclasses.dataclass(frozen=True)
class _StockBlock:
    """One block on the stream: y = W x + b for each linear layer, gain and bias for each norm."""

    norm1: Affine
    queries: Affine
    keys: Affine
    values: Affine
    out: Affine
    norm2: Affine
    up: Affine
    down: Affine


def _exact(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().double()


def _affine(layer: nn.Linear) -> Affine:
    weight = _exact(layer.weight)
    bias = weight.new_zeros(weight.shape[0]) if layer.bias is None else _exact(layer.bias)
    return weight, bias


def _projections(stream: _Stream, block: Block) -> list[Affine]:
    """Queries, keys and values."""
    weights, biases = _affine(block.attention.qkv)
    pairs = []
    for part, (weight, bias) in enumerate(zip(weights.chunk(3), biases.chunk(3), strict=True)):
        rows = torch.cat([weight, bias[:, None]], 1)
        rows = stream.head_rows(rows, block.attention.heads, queries=part == 0)
        pairs.append((stream.pad(rows[:, :-1]), rows[:, -1]))
    return pairs


def _stock_block(stream: _Stream, block: Block) -> _StockBlock:
    queries, keys, values = _projections(stream, block)
    out, out_bias = _affine(block.attention.out)
    up, up_bias = _affine(block.feed_forward.up)
    down, down_bias = _affine(block.feed_forward.down)
    out_rows = stream.head_rows(out.T, block.attention.heads)
    return _StockBlock(
        norm1=stream.norm(block.norm1),
        queries=queries,
        keys=keys,
        values=values,
        out=(stream.write(out_rows).T, stream.write(out_bias)),
        norm2=stream.norm(block.norm2),
        up=(stream.pad(up), up_bias),
        down=(stream.write(down, 0), stream.write(down_bias)),
    )


@dataclasses.dataclass(frozen=True)
class _Ends:
    """What is before and after the blocks: input vectors (V, W), positions (T, W), last norm.

    output: (V, W); None if the output weights are the input vectors.
    """

    inputs: Tensor
    positions: Tensor
    norm: Affine
    output: Tensor | None


def _ends(model: TinyLM, stream: _Stream) -> _Ends:
    assert isinstance(model.final_norm, Norm)
    vectors = _exact(model.embedding)
    scale = float(model.embedding_scale)
    table = model.positions
    if table is None:
        positions = vectors.new_zeros(model.settings.context, model.width)
    else:
        positions = _exact(table)
    if model.output is None:
        weights, factor, bias = vectors, scale * model.width**-0.5, model.output_bias
    else:
        weights, factor, bias = _exact(model.output.weight), 1.0, model.output.bias
    gain, shift = stream.norm(model.final_norm)
    if model.output is None and bias is None and stream.wide == stream.width:
        tied_factor = factor / (scale * stream.scale)
        norm = gain * tied_factor, shift * tied_factor
        output = None
    else:
        norm = gain, shift
        output = weights * factor
        if bias is not None:
            shift[model.width] = 1.0  # the channel that the bias is read from
            output = torch.cat([output, _exact(bias)[:, None]], 1)
        output = stream.pad(output)
    return _Ends(stream.write(vectors * scale), stream.write(positions), norm, output)


def _named(names: dict[str, Affine]) -> dict[str, Tensor]:
    tensors = {}
    for name, (weight, bias) in names.items():
        tensors[f"{name}.weight"] = weight
        tensors[f"{name}.bias"] = bias
    return tensors


def _gpt2_block(name: str, block: _StockBlock) -> dict[str, Tensor]:
    """GPT-2 keeps its weights the other way round: (in, out)."""
    projections = (block.queries, block.keys, block.values)
    weight = torch.cat([weight for weight, _ in projections])
    bias = torch.cat([bias for _, bias in projections])
    transposed = {
        "attn.c_attn": (weight, bias),
        "attn.c_proj": block.out,
        "mlp.c_fc": block.up,
        "mlp.c_proj": block.down,
    }
    names = {f"{name}.ln_1": block.norm1, f"{name}.ln_2": block.norm2}
    for part, (weight, bias) in transposed.items():
        names[f"{name}.{part}"] = weight.T, bias
    return _named(names)


def _gpt2(model: TinyLM, stream: _Stream, ends: _Ends, blocks: list[_StockBlock]) -> StockForm:
    settings = model.settings
    tensors = {"transformer.wte.weight": ends.inputs, "transformer.wpe.weight": ends.positions}
    for layer, block in enumerate(blocks):
        tensors |= _gpt2_block(f"transformer.h.{layer}", block)
    tensors |= _named({"transformer.ln_f": ends.norm})
    if ends.output is not None:
        tensors["lm_head.weight"] = ends.output
    config = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": model.vocab_size,
        "n_positions": settings.context,
        "n_embd": stream.wide,
        "n_layer": settings.layers,
        "n_head": stream.heads,
        "n_inner": settings.feed_forward,
        "activation_function": settings.activation,
        "embd_pdrop": settings.dropout,
        "attn_pdrop": settings.dropout,
        "resid_pdrop": settings.dropout,
        "layer_norm_epsilon": EPSILON,
        "tie_word_embeddings": ends.output is None,
        "dtype": "float32",
    }
    return StockForm("GPT2LMHeadModel", config, tensors)


def _neox_block(name: str, block: _StockBlock, heads: int) -> dict[str, Tensor]:
    """GPT-NeoX keeps query, key and value of a head together."""
    projections = (block.queries, block.keys, block.values)
    weights = [weight.unflatten(0, (heads, -1)) for weight, _ in projections]
    biases = [bias.unflatten(0, (heads, -1)) for _, bias in projections]
    joined = torch.stack(weights, 1).flatten(0, 2), torch.stack(biases, 1).flatten(0, 2)
    return _named(
        {
            f"{name}.input_layernorm": block.norm1,
            f"{name}.attention.query_key_value": joined,
            f"{name}.attention.dense": block.out,
            f"{name}.post_attention_layernorm": block.norm2,
            f"{name}.mlp.dense_h_to_4h": block.up,
            f"{name}.mlp.dense_4h_to_h": block.down,
        }
    )


def _neox(model: TinyLM, stream: _Stream, ends: _Ends, blocks: list[_StockBlock]) -> StockForm:
    settings = model.settings
    prefix = "gpt_neox"
    tensors = {f"{prefix}.embed_in.weight": ends.inputs}
    tensors |= _named({f"{prefix}.final_layer_norm": ends.norm})
    for layer, block in enumerate(blocks):
        tensors |= _neox_block(f"{prefix}.layers.{layer}", block, stream.heads)
    if ends.output is not None:
        tensors["embed_out.weight"] = ends.output
    head_width = settings.head_width or model.width // settings.heads
    config = {
        "model_type": "gpt_neox",
        "architectures": ["GPTNeoXForCausalLM"],
        "vocab_size": model.vocab_size,
        "max_position_embeddings": settings.context,
        "hidden_size": stream.wide,
        "num_hidden_layers": settings.layers,
        "num_attention_heads": stream.heads,
        "intermediate_size": settings.feed_forward,
        "hidden_act": settings.activation,
        "rotary_pct": head_width / (stream.wide // stream.heads),
        "rotary_emb_base": 10000,
        "use_parallel_residual": False,
        "attention_bias": True,
        "hidden_dropout": settings.dropout,
        "attention_dropout": settings.dropout,
        "layer_norm_eps": EPSILON,
        "tie_word_embeddings": ends.output is None,
        "dtype": "float32",
    }
    return StockForm("GPTNeoXForCausalLM", config, tensors)


def stock_form(model: TinyLM, multiple: int = 1) -> StockForm:
    """A stock model that computes the same function of the ids, its width a multiple of `multiple`.

    Raises InputError if there is none.
    """
    problem = stock_problem(model.settings)
    if problem:
        raise InputError(problem)
    stream = _new_stream(model.settings, model.width, multiple)
    ends = _ends(model, stream)
    blocks = [_stock_block(stream, block) for block in model.blocks if isinstance(block, Block)]
    make = _neox if model.settings.positions == "rotary" else _gpt2
    return make(model, stream, ends, blocks)
