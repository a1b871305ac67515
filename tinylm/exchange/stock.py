"""A TinyLM as GPT-2, or as GPT-NeoX with rotary positions, with the same logits.

Stock transformers runs both without other code. What they lack is put into their weights, which are
computed in float64:

- the embedding's scale is multiplied into the embedding, the factor of a tied output into the last
  norm;
- an output bias is a column of output weights that reads a channel which is always 1;
- heads that are narrower or wider together than the residual stream get channels that are always 0.

So the stock model's residual stream has W >= D channels, and those after the first D are 0. Its
layer norms give what ours give, because

- all that is written to the stream has mean 0. A norm subtracts the mean anyway, so nothing is lost;
- the variance over W channels is then D / W of the variance over D. So is the epsilon, and the gain
  is multiplied by sqrt(D / W).
"""

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tinylm.base.config import InputError
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import Block, Norm, TinyLM

Affine = tuple[Tensor, Tensor]  # weight (out, in) and bias (out); of a norm: gain and bias
REQUIRED = {"norm": "pre", "norm_kind": "layer", "final_norm": True}
GPT2 = {  # our part: its name there
    "inputs": "transformer.wte",
    "positions": "transformer.wpe",
    "blocks": "transformer.h",
    "norm1": "ln_1",
    "qkv": "attn.c_attn",
    "out": "attn.c_proj",
    "norm2": "ln_2",
    "up": "mlp.c_fc",
    "down": "mlp.c_proj",
    "final_norm": "transformer.ln_f",
    "output": "lm_head",
}
GPT_NEOX = {
    "inputs": "gpt_neox.embed_in",
    "blocks": "gpt_neox.layers",
    "norm1": "input_layernorm",
    "qkv": "attention.query_key_value",
    "out": "attention.dense",
    "norm2": "post_attention_layernorm",
    "up": "mlp.dense_h_to_4h",
    "down": "mlp.dense_4h_to_h",
    "final_norm": "gpt_neox.final_layer_norm",
    "output": "embed_out",
}


@dataclasses.dataclass(frozen=True)
class ExportedModel:
    """A model for transformers: class name, config.json, tensors under its names.

    parameters: their number, tied ones counted once. check: what reading the files back has shown.
    """

    architecture: str
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    parameters: int
    check: str = ""


def stock_problem(settings: ModelSettings) -> str:
    """Why neither architecture computes a model of these settings; or ''."""
    for name, required in REQUIRED.items():
        value = getattr(settings, name)
        if value != required:
            wanted, got = (str(one).lower() for one in (required, value))
            return f"model.{name}: expected {wanted}, got {got}; or use --format tinylm"
    return ""


def stock_form(model: TinyLM) -> ExportedModel:
    """A stock model that computes the same function of the ids. Raises InputError if none does."""
    if problem := stock_problem(model.settings):
        raise InputError(problem)
    sizes = _Sizes.of(model)
    is_neox = model.settings.positions == "rotary"
    names = GPT_NEOX if is_neox else GPT2
    tensors = {}
    for part, tensor in _ends(model, sizes).items():
        part, _, kind = part.partition(".")
        tensors[f"{names[part]}.{kind}"] = tensor
    for layer, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        for part, (weight, bias) in _block(block, sizes, qkv_by_head=is_neox).items():
            name = f"{names['blocks']}.{layer}.{names[part]}"
            if weight.dim() == 2 and not is_neox:
                weight = weight.T  # GPT-2 keeps the weights of linear layers as (in, out)
            tensors[f"{name}.weight"] = weight
            tensors[f"{name}.bias"] = bias
    config = (_neox_config if is_neox else _gpt2_config)(model.settings, sizes)
    config["vocab_size"] = model.vocab_size
    config["dtype"] = "float32"
    config["tie_word_embeddings"] = f"{names['output']}.weight" not in tensors
    parameters = sum(tensor.numel() for tensor in tensors.values())
    return ExportedModel(config["architectures"][0], config, tensors, parameters)


@dataclasses.dataclass(frozen=True)
class _Sizes:
    """Widths of our model and of the stock model.

    width, wide: D and W, channels of the residual stream.
    head_width, wide_head: channels of each of the `heads` heads.
    """

    width: int
    wide: int
    heads: int
    head_width: int

    @classmethod
    def of(cls, model: TinyLM) -> "_Sizes":
        """The narrowest stream with room for the heads and a channel for the output bias."""
        settings = model.settings
        head_width = settings.width_of_heads(model.width)
        room = max(model.width + settings.output_bias, settings.heads * head_width)
        wide = math.ceil(room / settings.heads) * settings.heads
        return cls(model.width, wide, settings.heads, head_width)

    @property
    def wide_head(self) -> int:
        return self.wide // self.heads

    @property
    def variance(self) -> float:
        """Of the stream, as a multiple of ours."""
        return self.width / self.wide

    def pad(self, x: Tensor) -> Tensor:
        """x, then zeros.  (..., n) -> (..., W)"""
        return F.pad(x, (0, self.wide - x.shape[-1]))

    def write(self, x: Tensor) -> Tensor:
        """What is added to the stream, with mean 0 where it is wider.  (..., D) -> (..., W)"""
        if self.wide > self.width:
            x = x - x.mean(-1, keepdim=True)
        return self.pad(x)

    def norm(self, norm: nn.Module) -> Affine:
        """Gain and bias of a norm of the stream.  -> (W), (W)"""
        assert isinstance(norm, Norm)
        assert norm.bias is not None  # layer norms have one
        return self.pad(_exact(norm.gain) * self.variance**0.5), self.pad(_exact(norm.bias))

    def by_head(self, rows: Tensor) -> Tensor:
        """Rows of our heads, padded to the stock model's heads.  (H Dh, n) -> (H, W / H, n)"""
        heads = rows.unflatten(0, (self.heads, self.head_width))
        return F.pad(heads, (0, 0, 0, self.wide_head - self.head_width))


def _exact(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().double()


def _affine(layer: nn.Linear) -> Affine:
    weight = _exact(layer.weight)
    bias = weight.new_zeros(weight.shape[0]) if layer.bias is None else _exact(layer.bias)
    return weight, bias


def _ends(model: TinyLM, sizes: _Sizes) -> dict[str, Tensor]:
    """The tensors before and after the blocks."""
    settings = model.settings
    vectors = _exact(model.embedding) * float(model.embedding_scale)
    parts = {"inputs.weight": sizes.write(vectors)}
    if settings.positions != "rotary":
        zeros = torch.zeros(settings.context, model.width)
        positions = zeros if model.positions is None else model.positions
        parts["positions.weight"] = sizes.write(_exact(positions))
    if model.output is None:
        return parts | _tied_output(model, sizes, vectors)
    return parts | _output(model, sizes, _exact(model.output.weight), model.output.bias)


def _tied_output(model: TinyLM, sizes: _Sizes, vectors: Tensor) -> dict[str, Tensor]:
    """The last norm and, where the stream is wider than ours, output weights.

    Otherwise there is no bias, and the input vectors serve as output weights: the last norm includes
    the factor of the logits.
    """
    factor = model.width**-0.5
    if sizes.wide > sizes.width:
        return _output(model, sizes, vectors * factor, model.output_bias)
    gain, shift = sizes.norm(model.final_norm)
    return {"final_norm.weight": gain * factor, "final_norm.bias": shift * factor}


def _output(model: TinyLM, sizes: _Sizes, weight: Tensor, bias: Tensor | None) -> dict[str, Tensor]:
    """Output weights (V, W) from our weight (V, D) and bias (V), and the last norm."""
    gain, shift = sizes.norm(model.final_norm)
    if bias is not None:
        shift[model.width] = 1.0  # the first channel after ours is 1, and its weights the bias
        weight = torch.cat([weight, _exact(bias)[:, None]], 1)
    return {
        "output.weight": sizes.pad(weight),
        "final_norm.weight": gain,
        "final_norm.bias": shift,
    }


def _block(block: Block, sizes: _Sizes, qkv_by_head: bool) -> dict[str, Affine]:
    """One block: y = W x + b for each linear layer, gain and bias for each norm."""
    out, out_bias = _affine(block.attention.out)
    up, up_bias = _affine(block.feed_forward.up)
    down, down_bias = _affine(block.feed_forward.down)
    return {
        "norm1": sizes.norm(block.norm1),
        "qkv": _qkv(block, sizes, qkv_by_head),
        "out": (sizes.write(sizes.by_head(out.T).flatten(0, 1)).T, sizes.write(out_bias)),
        "norm2": sizes.norm(block.norm2),
        "up": (sizes.pad(up), up_bias),
        "down": (sizes.write(down.T).T, sizes.write(down_bias)),
    }


def _qkv(block: Block, sizes: _Sizes, by_head: bool) -> Affine:
    """Queries, then keys, then values, as GPT-2 has them; or the three of each head together."""
    weight, bias = _affine(block.attention.qkv)
    rows = torch.cat([weight, bias[:, None]], 1)  # (3 H Dh, D + 1)
    queries, keys, values = (sizes.by_head(part) for part in rows.chunk(3))
    # scores are divided by the root of the head's width, which is larger there
    queries = queries * (sizes.wide_head / sizes.head_width) ** 0.5
    joined = torch.stack([queries, keys, values], 1 if by_head else 0).flatten(0, 2)
    return sizes.pad(joined[:, :-1]), joined[:, -1]


def rotary_share(rotated: int, head_width: int) -> float:
    """The share of a head's channels that are rotated, of which readers take int(head_width * share).

    That integer is `rotated`: a quotient may lie just below the share, and lose a channel.
    """
    share = rotated / head_width
    while int(head_width * share) < rotated:
        share = math.nextafter(share, math.inf)
    return share


def _gpt2_config(settings: ModelSettings, sizes: _Sizes) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_positions": settings.context,
        "n_embd": sizes.wide,
        "n_layer": settings.layers,
        "n_head": sizes.heads,
        "n_inner": settings.feed_forward,
        "activation_function": settings.activation,
        "layer_norm_epsilon": settings.norm_eps * sizes.variance,
        "embd_pdrop": settings.dropout,
        "attn_pdrop": settings.dropout,
        "resid_pdrop": settings.dropout,
    }


def _neox_config(settings: ModelSettings, sizes: _Sizes) -> dict[str, Any]:
    return {
        "model_type": "gpt_neox",
        "architectures": ["GPTNeoXForCausalLM"],
        "max_position_embeddings": settings.context,
        "hidden_size": sizes.wide,
        "num_hidden_layers": settings.layers,
        "num_attention_heads": sizes.heads,
        "intermediate_size": settings.feed_forward,
        "hidden_act": settings.activation,
        "layer_norm_eps": settings.norm_eps * sizes.variance,
        "rotary_pct": rotary_share(sizes.head_width, sizes.wide_head),
        "rotary_emb_base": 10000,
        "use_parallel_residual": False,
        "attention_bias": True,
        "hidden_dropout": settings.dropout,
        "attention_dropout": settings.dropout,
    }
