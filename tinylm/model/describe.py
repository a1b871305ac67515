"""What a model is made of: parts, shapes, parameters, operations and bytes."""

import dataclasses
from typing import Any

from torch import nn

from tinylm.model.recompute import mode_of, recompute_counts
from tinylm.model.transformer import Block, FeedForward, SelfAttention, TinyLM, block_matrices


@dataclasses.dataclass(frozen=True)
class Part:
    """One line of the table.

    block: its number, or None outside the blocks. kind: embedding, blocks, norms or output.
    flop, per token: of products with weights, forward. attention_flop: of queries with keys and
    weights with values, forward, per token of a full context. training_flop: of both, forward and
    backward. A multiply-add counts as 2; norms, softmax and activations are left out.
    """

    name: str
    block: int | None
    kind: str
    shape: str
    parameters: int
    trainable: bool
    flop: int
    attention_flop: int = 0
    training_flop: int = 0


def _size(*modules: nn.Module) -> int:
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def _trainable(*modules: nn.Module) -> bool:
    return all(parameter.requires_grad for module in modules for parameter in module.parameters())


def _bias(layer: nn.Linear) -> str:
    return "" if layer.bias is None else " + bias"


def _recomputed(model: TinyLM, number: int) -> int:
    """How often the backward pass computes this block again."""
    return recompute_counts(len(model.blocks), mode_of(model))[number - 1]


def _attention(model: TinyLM, block: Block, number: int) -> Part:
    attention: SelfAttention = block.attention
    # the zero columns of narrower heads are computed as well
    columns = attention.heads * attention.head_width
    into = 2 * model.width * 3 * columns
    out = 2 * columns * model.width
    scores = 2 * 2 * columns * model.settings.context
    forward = into + out + scores
    recomputed = _recomputed(model, number)
    # The first block's input needs a gradient only if something below it learns.
    learns_below = model.embedding.requires_grad or model.settings.positions == "learned"
    needs_gradient = number > 1 or block.pre or learns_below or recomputed > 0
    backward = 2 * forward - (0 if needs_gradient else into)
    widest = attention.head_width
    narrowest = attention.inner // attention.heads
    widths = f"{widest}" if widest == narrowest else f"{narrowest}-{widest}"
    shape = (
        f"{model.width} -> 3 x {attention.inner}{_bias(attention.qkv)} "
        f"({attention.heads} x {widths}) -> {model.width}{_bias(attention.out)}"
    )
    return Part(
        name="attention",
        block=number,
        kind="blocks",
        shape=shape,
        parameters=_size(attention),
        trainable=_trainable(attention),
        flop=into + out,
        attention_flop=scores,
        training_flop=forward + backward + recomputed * forward,
    )


def _feed_forward(model: TinyLM, block: Block, number: int) -> Part:
    layer: FeedForward = block.feed_forward
    width = layer.up.in_features
    inner = layer.up.out_features
    flop = 2 * 2 * width * inner
    bias = _bias(layer.up)
    return Part(
        name="feed-forward",
        block=number,
        kind="blocks",
        shape=f"{width} -> {inner}{bias} {model.settings.activation} -> {width}{bias}",
        parameters=_size(layer),
        trainable=_trainable(layer),
        flop=flop,
        training_flop=(3 + _recomputed(model, number)) * flop,
    )


def _norms(model: TinyLM, norms: list[nn.Module], number: int | None) -> Part:
    settings = model.settings
    shape = f"{model.width}, {settings.norm_kind}"
    return Part(
        name="norms" if number else "final norm",
        block=number,
        kind="norms",
        shape=f"2 x {shape}, {settings.norm}" if number else shape,
        parameters=_size(*norms),
        trainable=_trainable(*norms),
        flop=0,
    )


def _positions(model: TinyLM) -> Part:
    kind = model.settings.positions
    size = model.positions.numel() if isinstance(model.positions, nn.Parameter) else 0
    shape = kind if model.positions is None else f"{model.settings.context} x {model.width}, {kind}"
    return Part("positions", None, "embedding", shape, size, size > 0, 0)


def _output(model: TinyLM) -> Part:
    """The output layer. Tied weights are counted with the embedding, their bias here."""
    is_tied = model.settings.tied_output
    has_bias = model.settings.output_bias
    weights = model.vocab_size * model.width
    weights_learn = not is_tied or model.embedding.requires_grad
    return Part(
        name="output (tied)" if is_tied else "output",
        block=None,
        kind="output",
        shape=f"{model.vocab_size} x {model.width}{' + bias' * has_bias}",
        parameters=(0 if is_tied else weights) + (model.vocab_size if has_bias else 0),
        trainable=weights_learn or has_bias,
        flop=2 * weights,
        training_flop=(3 if weights_learn else 2) * 2 * weights,
    )


def describe(model: TinyLM) -> list[Part]:
    """The parts in the order in which a token meets them; recomputation is counted."""
    embedding = model.embedding
    table = f"{model.vocab_size} x {model.width}"
    learns = embedding.requires_grad
    parts = [
        Part("embedding", None, "embedding", table, embedding.numel(), learns, 0),
        _positions(model),
    ]
    for number, block in enumerate(model.blocks, 1):
        assert isinstance(block, Block)
        parts.append(_norms(model, [block.norm1, block.norm2], number))
        parts.append(_attention(model, block, number))
        parts.append(_feed_forward(model, block, number))
    if model.settings.final_norm:
        parts.append(_norms(model, [model.final_norm], None))
    return [*parts, _output(model)]


def summary(model: TinyLM, optimizer: str = "adamw") -> dict[str, Any]:
    """Totals: parameters by part, operations per token of a full context, and bytes.

    optimizer: adam and adamw keep two numbers per parameter, muon one for each of the blocks'
    matrices.
    """
    parts = describe(model)
    settings = model.settings
    trainable = [p for p in model.parameters() if p.requires_grad]
    gradient_bytes = sum(p.nbytes for p in trainable)
    optimizer_bytes = 2 * gradient_bytes
    if optimizer == "muon":
        optimizer_bytes -= sum(p.nbytes for p, _ in block_matrices(model).values())
    attention = next(m for m in model.modules() if isinstance(m, SelfAttention))
    slot = settings.layers * 2 * attention.heads * attention.head_width * model.embedding.itemsize
    by_kind = dict.fromkeys(("embedding", "blocks", "output", "norms"), 0)
    for part in parts:
        by_kind[part.kind] += part.parameters
    return {
        "parameters": _size(model),
        "parameters_trainable": sum(p.numel() for p in trainable),
        "parameters_by_part": by_kind,
        "forward_flop_per_token": sum(p.flop + p.attention_flop for p in parts),
        "attention_flop_per_token": sum(p.attention_flop for p in parts),
        "training_flop_per_token": sum(p.training_flop for p in parts),
        "weight_bytes": sum(p.nbytes for p in model.parameters()),
        "gradient_bytes": gradient_bytes,
        "optimizer_bytes": optimizer_bytes,
        "kv_cache_bytes_per_row": slot * settings.context,
    }
