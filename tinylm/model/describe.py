"""What a model is made of: parts, shapes, parameters, operations and bytes, counted from its settings."""

import dataclasses
from typing import Any

from torch import nn

from tinylm.model.recompute import mode_of, recompute_counts
from tinylm.model.transformer import Block, FeedForward, SelfAttention, TinyLM, block_matrices


@dataclasses.dataclass(frozen=True)
class Part:
    """One line of the table. Operations are floating-point, a multiply-add counted as 2; norms, softmax and
    activations, which move data rather than compute, are left out."""

    name: str
    block: int | None  # None: outside the blocks
    kind: str  # embedding | blocks | norms | output
    shape: str
    parameters: int
    trainable: bool
    flop: int  # of products with weights, forward, per token
    attention_flop: int = (
        0  # of queries with keys and weights with values, forward, per token of a full context
    )
    training_flop: int = 0  # of both, forward and backward, per token of a full context


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _trainable(module: nn.Module) -> bool:
    return all(parameter.requires_grad for parameter in module.parameters())


def _bias(layer: nn.Linear) -> str:
    return "" if layer.bias is None else " + bias"


def _again(model: TinyLM, number: int) -> int:
    """How often the backward pass computes this block again."""
    return recompute_counts(len(model.blocks), mode_of(model))[number - 1]


def _attention(model: TinyLM, block: Block, number: int) -> Part:
    attention: SelfAttention = block.attention
    columns = (
        attention.heads * attention.head_width
    )  # the zero columns of narrower heads are computed as well
    into, out = 2 * model.width * 3 * columns, 2 * columns * model.width
    scores = 2 * 2 * columns * model.settings.context
    # The first block's input needs a gradient only if something below it learns: a norm, vectors, positions.
    learned = model.embedding.requires_grad or model.settings.positions == "learned"
    reaches = number > 1 or block.pre or learned or _again(model, number) > 0
    backward = 2 * (into + out + scores) - (0 if reaches else into)
    again = _again(model, number) * (into + out + scores)
    widest, narrowest = attention.head_width, attention.inner // attention.heads
    heads = (
        f"{attention.heads} x {widest}"
        if widest == narrowest
        else f"{attention.heads} x {narrowest}-{widest}"
    )
    into_bias, out_bias = _bias(attention.qkv), _bias(attention.out)
    shape = (
        f"{model.width} -> 3 x {attention.inner}{into_bias} ({heads}) -> {model.width}{out_bias}"
    )
    flop, training = into + out, into + out + scores + backward + again
    return Part(
        "attention",
        number,
        "blocks",
        shape,
        _size(attention),
        _trainable(attention),
        flop,
        scores,
        training,
    )


def _feed_forward(model: TinyLM, block: Block, number: int) -> Part:
    layer: FeedForward = block.feed_forward
    flop = 2 * 2 * layer.up.in_features * layer.up.out_features
    bias, activation = _bias(layer.up), model.settings.activation
    shape = f"{layer.up.in_features} -> {layer.up.out_features}{bias} {activation} -> {layer.up.in_features}{bias}"
    training = (3 + _again(model, number)) * flop
    return Part(
        "feed-forward", number, "blocks", shape, _size(layer), _trainable(layer), flop, 0, training
    )


def _norms(model: TinyLM, module: list[nn.Module], number: int | None) -> Part:
    size, settings = sum(map(_size, module)), model.settings
    name, shape = ("norms", f"2 x {model.width}") if number else ("final norm", str(model.width))
    kind = f"{settings.norm_kind}, {settings.norm}" if number else settings.norm_kind
    return Part(name, number, "norms", f"{shape}, {kind}", size, all(map(_trainable, module)), 0)


def _positions(model: TinyLM) -> Part:
    size = model.positions.numel() if isinstance(model.positions, nn.Parameter) else 0
    kind = model.settings.positions
    shape = kind if model.positions is None else f"{model.settings.context} x {model.width}, {kind}"
    return Part("positions", None, "embedding", shape, size, size > 0, 0)


def _output(model: TinyLM) -> Part:
    """Tied weights are counted with the embedding, their bias here."""
    tied, bias = model.settings.tied_output, model.settings.output_bias
    weights = model.vocab_size * model.width
    size = (0 if tied else weights) + (model.vocab_size if bias else 0)
    learns = not tied or model.embedding.requires_grad  # the weights; a bias learns in any case
    name, shape = "output (tied)" if tied else "output", f"{model.vocab_size} x {model.width}"
    again = mode_of(model) == "blocks+loss" and (learns or bias)
    training = ((3 if learns else 2) + again) * 2 * weights
    return Part(
        name,
        None,
        "output",
        shape + " + bias" * bias,
        size,
        learns or bias,
        2 * weights,
        0,
        training,
    )


def describe(model: TinyLM) -> list[Part]:
    """The parts in the order in which a token meets them; what its `run_blocks` computes again is included."""
    table = f"{model.vocab_size} x {model.width}"
    parts = [
        Part(
            "embedding",
            None,
            "embedding",
            table,
            model.embedding.numel(),
            model.embedding.requires_grad,
            0,
        ),
        _positions(model),
    ]
    for number, block in enumerate(model.blocks, 1):
        assert isinstance(block, Block)
        parts += [
            _norms(model, [block.norm1, block.norm2], number),
            _attention(model, block, number),
            _feed_forward(model, block, number),
        ]
    if model.settings.final_norm:
        parts.append(_norms(model, [model.final_norm], None))
    return [*parts, _output(model)]


def summary(model: TinyLM, optimizer: str = "adamw") -> dict[str, Any]:
    """Totals: parameters by part, operations per token (full context) and bytes of a training run and of a cache row.

    optimizer: adam and adamw keep two numbers per parameter, muon one for each of the blocks' matrices.
    """
    parts, settings = describe(model), model.settings
    parameters = list(model.named_parameters())
    trainable = [p for _, p in parameters if p.requires_grad]
    one = [p for p, _ in block_matrices(model).values()] if optimizer == "muon" else []
    gradient_bytes = sum(p.nbytes for p in trainable)
    attention: SelfAttention = next(m for m in model.modules() if isinstance(m, SelfAttention))
    slot = settings.layers * 2 * attention.heads * attention.head_width * model.embedding.itemsize
    kinds = ("embedding", "blocks", "output", "norms")
    return {
        "parameters": sum(p.numel() for _, p in parameters),
        "parameters_trainable": sum(p.numel() for p in trainable),
        "parameters_by_part": {
            kind: sum(p.parameters for p in parts if p.kind == kind) for kind in kinds
        },
        "forward_flop_per_token": sum(p.flop + p.attention_flop for p in parts),
        "attention_flop_per_token": sum(p.attention_flop for p in parts),
        "training_flop_per_token": sum(p.training_flop for p in parts),
        "weight_bytes": sum(p.nbytes for _, p in parameters),
        "gradient_bytes": gradient_bytes,
        "optimizer_bytes": 2 * gradient_bytes - sum(p.nbytes for p in one),
        "kv_cache_bytes_per_row": slot * settings.context,
    }
