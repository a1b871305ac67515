"""A TinyLM as a model of an architecture that stock transformers ships, with the same logits; no transformers needed.

pre-norm with a final norm -> GPT-2, or GPT-NeoX with rotary positions;  otherwise -> OPT.

What these lack is folded into what they have: embedding scale and tied factor into weights, RMS norms, uneven
heads and epsilons into the stream's width and size (tinylm/exchange/stream.py), an output bias into a channel that is
always 1 and the column of the output weights that reads it. All in float64, so one rounding remains.
"""

import dataclasses
from typing import Any

import torch
from torch import Tensor

from tinylm.base.config import InputError
from tinylm.exchange.blocks import Affine, StockBlock, exact, of_norm, stock_blocks
from tinylm.exchange.stream import EPSILON, Stream, new_stream
from tinylm.model.settings import ModelSettings
from tinylm.model.transformer import Norm, TinyLM

LEAST_EPS = 1e-20  # below this, the stream that compensates grows so large that its squares overflow float32
OFFSET = 2  # OPT's table of positions starts with two rows that are never read


@dataclasses.dataclass(frozen=True)
class StockForm:
    """A model for transformers: class name, config.json, float64 tensors under that class's names."""

    architecture: str
    config: dict[str, Any]
    tensors: dict[str, Tensor]

    @property
    def parameters(self) -> int:
        """Number of weights, those that are tied once."""
        return sum(tensor.numel() for tensor in self.tensors.values())


def stock_problem(settings: ModelSettings) -> str:
    """Why no stock architecture computes a model of these settings, and the nearest setting that one does; or ''."""
    if settings.norm_kind == "std":
        return (
            "model.norm_kind = 'std': no architecture of transformers divides by std + eps; "
            "allowed: layer | rms, or any with --format tinylm"
        )
    if settings.positions == "rotary" and not (settings.norm == "pre" and settings.final_norm):
        return (
            "model.positions = 'rotary': of transformers, GPT-NeoX has them, with norm 'pre' and a final norm; "
            "allowed: these, other positions, or any with --format tinylm"
        )
    if settings.norm_eps < LEAST_EPS:
        return (
            f"model.norm_eps = {settings.norm_eps}: too small for float32 in an architecture of transformers; "
            f"allowed: {LEAST_EPS} to 1.0, or any with --format tinylm"
        )
    return ""


def stock_form(model: TinyLM, multiple: int = 1) -> StockForm:
    """A stock model that computes the same function of the ids, its width a multiple of `multiple`.

    Raises InputError if there is none.
    """
    problem = stock_problem(model.settings)
    if problem:
        raise InputError(problem)
    stream = new_stream(model.settings, model.width, multiple)
    if model.settings.norm == "pre" and model.settings.final_norm:
        return (_neox if model.settings.positions == "rotary" else _gpt2)(model, stream)
    return _opt(model, stream)


@dataclasses.dataclass(frozen=True)
class _Ends:
    """Input vectors, positions and output of a model, in float64."""

    vectors: Tensor  # (V, D), as they are stored
    scale: float  # on the vectors
    positions: Tensor  # (T, D)
    output: Tensor  # (V, D), as it is stored
    factor: float  # on the hidden states
    bias: Tensor | None  # (V)
    tied: bool


def _ends(model: TinyLM) -> _Ends:
    vectors = exact(model.embedding)
    scale = float(model.embedding_scale)
    table = model.positions
    positions = (
        vectors.new_zeros(model.settings.context, model.width) if table is None else exact(table)
    )
    if model.output is None:
        bias = None if model.output_bias is None else exact(model.output_bias)
        return _Ends(vectors, scale, positions, vectors, scale * model.width**-0.5, bias, tied=True)
    bias = None if model.output.bias is None else exact(model.output.bias)
    return _Ends(vectors, scale, positions, exact(model.output.weight), 1.0, bias, tied=False)


def _read_out(stream: Stream, norm: Affine, width: int, factor: float, constant: bool) -> Affine:
    """The last norm (W), (W): times a factor, and, if asked, 1 on the channel after the D that the output reads."""
    gain, bias = norm[0] * factor, norm[1] * factor
    if constant:
        bias[width] = 1.0
    return gain, bias


def _with_bias(output: Tensor, bias: Tensor | None) -> Tensor:
    """Output weights with one more column, which reads the constant 1.  (V, D) -> (V, D + 1)"""
    return output if bias is None else torch.cat([output, bias[:, None]], 1)


def _pre_norm_ends(
    model: TinyLM, stream: Stream, ends: _Ends
) -> tuple[Tensor, Affine, Tensor | None]:
    """Input vectors (V, W), the last norm, and the output matrix (V, W), which is None if it is the input vectors."""
    assert isinstance(model.final_norm, Norm)
    tied = ends.tied and ends.bias is None and not stream.centred
    factor = ends.factor / (ends.scale * stream.scale) if tied else 1.0
    final = _read_out(
        stream,
        stream.norm_out(*of_norm(model.final_norm)),
        model.width,
        factor,
        ends.bias is not None,
    )
    output = None if tied else stream.first(_with_bias(ends.output * ends.factor, ends.bias))
    return stream.write(ends.vectors * ends.scale), final, output


def _neox(model: TinyLM, stream: Stream) -> StockForm:
    settings, prefix = model.settings, "gpt_neox"
    inputs, final, output = _pre_norm_ends(model, stream, _ends(model))
    tensors = {f"{prefix}.embed_in.weight": inputs} | _named({f"{prefix}.final_layer_norm": final})
    for layer, block in enumerate(stock_blocks(stream, model)):
        tensors |= _neox_block(f"{prefix}.layers.{layer}", block, stream.heads)
    if output is not None:
        tensors["embed_out.weight"] = output
    turned = settings.head_width or model.width // settings.heads
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
        "rotary_pct": turned / (stream.wide // stream.heads),
        "rotary_emb_base": 10000,
        "use_parallel_residual": False,
        "attention_bias": True,
        "hidden_dropout": settings.dropout,
        "attention_dropout": settings.dropout,
        "layer_norm_eps": EPSILON,
        "tie_word_embeddings": output is None,
        "dtype": "float32",
    }
    return StockForm("GPTNeoXForCausalLM", config, tensors)


def _neox_block(name: str, block: StockBlock, heads: int) -> dict[str, Tensor]:
    """GPT-NeoX keeps query, key and value of a head together."""
    parts = [
        [part.unflatten(0, (heads, -1)) for part in pair]
        for pair in (block.queries, block.keys, block.values)
    ]
    weight, bias = (torch.stack(column, 1).flatten(0, 2) for column in zip(*parts, strict=True))
    return _named(
        {
            f"{name}.input_layernorm": block.norm1,
            f"{name}.attention.query_key_value": (weight, bias),
            f"{name}.attention.dense": block.out,
            f"{name}.post_attention_layernorm": block.norm2,
            f"{name}.mlp.dense_h_to_4h": block.up,
            f"{name}.mlp.dense_4h_to_h": block.down,
        }
    )


def _gpt2(model: TinyLM, stream: Stream) -> StockForm:
    ends, settings = _ends(model), model.settings
    inputs, final, output = _pre_norm_ends(model, stream, ends)
    tensors = {
        "transformer.wte.weight": inputs,
        "transformer.wpe.weight": stream.write(ends.positions),
    }
    for layer, block in enumerate(stock_blocks(stream, model)):
        tensors |= _gpt2_block(f"transformer.h.{layer}", block)
    tensors |= _named({"transformer.ln_f": final})
    if output is not None:
        tensors["lm_head.weight"] = output
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
        "tie_word_embeddings": output is None,
        "dtype": "float32",
    }
    return StockForm("GPT2LMHeadModel", config, tensors)


def _named(names: dict[str, Affine]) -> dict[str, Tensor]:
    return {
        f"{name}.{part}": tensor
        for name, pair in names.items()
        for part, tensor in zip(("weight", "bias"), pair, strict=True)
    }


def _gpt2_block(name: str, block: StockBlock) -> dict[str, Tensor]:
    """GPT-2 keeps its weights the other way round: (in, out)."""
    joined = [
        torch.cat(parts) for parts in zip(block.queries, block.keys, block.values, strict=True)
    ]
    turned = {
        "attn.c_attn": joined,
        "attn.c_proj": block.out,
        "mlp.c_fc": block.up,
        "mlp.c_proj": block.down,
    }
    return _named(
        {f"{name}.ln_1": block.norm1, f"{name}.ln_2": block.norm2}
        | {f"{name}.{part}": (weight.T, bias) for part, (weight, bias) in turned.items()}
    )


def _opt(model: TinyLM, stream: Stream) -> StockForm:
    ends, settings = _ends(model), model.settings
    blocks = stock_blocks(stream, model)
    reads_norm = settings.norm == "post"
    projects = stream.wide != model.width
    tied = ends.tied and (projects or reads_norm)
    factor = 1.0 if projects or not tied else ends.factor / (ends.scale * stream.scale)
    last, bias = blocks[-1], ends.bias
    if reads_norm:
        norm2 = _read_out(stream, last.norm2, model.width, factor, bias is not None)
        blocks[-1] = dataclasses.replace(last, norm2=norm2)
    elif bias is not None:
        down, added = last.down[0], last.down[1].clone()
        added[model.width] += stream.scale  # the second half then differs by 1, see _opt_ends
        blocks[-1] = dataclasses.replace(last, down=(down, added))
    prefix = "model.decoder"
    table = stream.write(ends.positions)
    tensors = {
        f"{prefix}.embed_positions.weight": torch.cat([table.new_zeros(OFFSET, stream.wide), table])
    }
    tensors |= _opt_ends(ends, stream, projects, tied, reads_norm)
    for layer, block in enumerate(blocks):
        tensors |= _opt_block(f"{prefix}.layers.{layer}", block)
    config = {
        "model_type": "opt",
        "architectures": ["OPTForCausalLM"],
        "vocab_size": model.vocab_size,
        "max_position_embeddings": settings.context,
        "hidden_size": stream.wide,
        "word_embed_proj_dim": model.width + (bias is not None),
        "num_hidden_layers": len(blocks),
        "num_attention_heads": stream.heads,
        "ffn_dim": settings.feed_forward,
        "do_layer_norm_before": settings.norm == "pre",
        "_remove_final_layer_norm": settings.norm == "pre",
        "activation_function": settings.activation,
        "dropout": settings.dropout,
        "attention_dropout": settings.dropout,
        "layerdrop": 0.0,
        "tie_word_embeddings": tied,
        "dtype": "float32",
    }
    return StockForm("OPTForCausalLM", config, tensors)


def _opt_ends(
    ends: _Ends, stream: Stream, projects: bool, tied: bool, reads_norm: bool
) -> dict[str, Tensor]:
    """Vocabulary matrices, and, if the stream is wider than they are, the projections into and out of it."""
    prefix, bias = "model.decoder", ends.bias
    reading = 1.0 if reads_norm else 1.0 / stream.scale
    if not projects:
        tensors = {f"{prefix}.embed_tokens.weight": stream.write(ends.vectors * ends.scale)}
        return (
            tensors if tied else tensors | {"lm_head.weight": ends.output * (ends.factor * reading)}
        )
    width = stream.width
    eye = torch.eye(width, dtype=torch.float64)
    unread = (
        None if bias is None else torch.zeros_like(bias)
    )  # a column for the output bias, if any
    project_in = stream.write(eye * ends.scale, 0)  # (W, D)
    project_out = stream.first(eye * (ends.factor * reading))  # (D, W)
    if bias is not None:
        project_in = torch.nn.functional.pad(project_in, (0, 1))
        one = project_out.new_zeros(1, stream.wide)
        one[0, width] = reading
        if not reads_norm:
            one[0, 0] = -reading * stream.signs[1]
        project_out = torch.cat([project_out, one])
    tensors = {
        f"{prefix}.embed_tokens.weight": _with_bias(ends.vectors, bias if tied else unread),
        f"{prefix}.project_in.weight": project_in,
        f"{prefix}.project_out.weight": project_out,
    }
    return tensors if tied else tensors | {"lm_head.weight": _with_bias(ends.output, bias)}


def _opt_block(name: str, block: StockBlock) -> dict[str, Tensor]:
    return _named(
        {
            f"{name}.self_attn.q_proj": block.queries,
            f"{name}.self_attn.k_proj": block.keys,
            f"{name}.self_attn.v_proj": block.values,
            f"{name}.self_attn.out_proj": block.out,
            f"{name}.self_attn_layer_norm": block.norm1,
            f"{name}.fc1": block.up,
            f"{name}.fc2": block.down,
            f"{name}.final_layer_norm": block.norm2,
        }
    )
