"""What a model is made of: parts, shapes, parameters, operations and bytes."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from tinylm.model.transformer import Block, TinyLM, block_matrices


@dataclasses.dataclass(frozen=True)
class Part:
    """One line of the table.

    block: its number, or None outside the blocks. kind: embedding, blocks, norms or output.
    flop, per token: of products with weights, forward. attention_flop: of queries with keys and
    weights with values, forward, per token of a full context. A multiply-add counts as 2; norms,
    softmax and activations are left out.
    """

    name: str
    block: int | None
    kind: str
    shape: str
    parameters: int
    trainable: bool
    flop: int = 0
    attention_flop: int = 0

    @property
    def training_flop(self) -> int:
        """Forward and backward, with nothing recomputed or frozen.

        The gradients of a product's two factors take as many operations each as the product.
        """
        return 3 * (self.flop + self.attention_flop)


def _part(
    name: str,
    block: int | None,
    kind: str,
    shape: str,
    parameters: Iterable[Tensor],
    **flop: int,
) -> Part:
    """A part with the number of its parameters; flop: fields of `Part`."""
    tensors = list(parameters)
    size = sum(tensor.numel() for tensor in tensors)
    learns = any(tensor.requires_grad for tensor in tensors)
    return Part(name, block, kind, shape, size, learns, **flop)


def _bias(layer: nn.Linear) -> str:
    return "" if layer.bias is None else " + bias"


def _attention(model: TinyLM, block: Block, number: int) -> Part:
    layer = block.attention
    inner = f"3 x {layer.inner}{_bias(layer.qkv)} ({layer.heads} x {layer.head_width})"
    return _part(
        "attention",
        number,
        "blocks",
        f"{model.width} -> {inner} -> {model.width}{_bias(layer.out)}",
        layer.parameters(),
        flop=2 * model.width * 4 * layer.inner,
        attention_flop=2 * 2 * layer.inner * model.settings.context,
    )


def _feed_forward(model: TinyLM, block: Block, number: int) -> Part:
    layer = block.feed_forward
    inner = layer.up.out_features
    bias = _bias(layer.up)
    return _part(
        "feed-forward",
        number,
        "blocks",
        f"{model.width} -> {inner}{bias} {model.settings.activation} -> {model.width}{bias}",
        layer.parameters(),
        flop=2 * 2 * model.width * inner,
    )


def _output(model: TinyLM) -> Part:
    """The output layer. Tied weights are counted with the embedding, their bias here."""
    is_tied = model.settings.tied_output
    named = model.named_parameters()
    shape = f"{model.vocab_size} x {model.width}"
    if model.settings.output_bias:
        shape += " + bias"
    return _part(
        "output (tied)" if is_tied else "output",
        None,
        "output",
        shape,
        [parameter for name, parameter in named if name.startswith("output")],
        flop=2 * model.vocab_size * model.width,
    )


def describe(model: TinyLM) -> list[Part]:
    """The parts in the order in which a token meets them."""
    settings = model.settings
    table = f"{model.vocab_size} x {model.width}"
    parts = [_part("embedding", None, "embedding", table, [model.embedding])]

    shape = settings.positions
    if model.positions is not None:
        shape = f"{settings.context} x {model.width}, {shape}"
    learned = [model.positions] if isinstance(model.positions, nn.Parameter) else []
    parts.append(_part("positions", None, "embedding", shape, learned))

    norm = f"{model.width}, {settings.norm_kind}"
    for number, block in enumerate(model.blocks, start=1):
        assert isinstance(block, Block)
        norms = [*block.norm1.parameters(), *block.norm2.parameters()]
        parts.append(_part("norms", number, "norms", f"2 x {norm}, {settings.norm}", norms))
        parts.append(_attention(model, block, number))
        parts.append(_feed_forward(model, block, number))
    if settings.final_norm:
        gains = model.final_norm.parameters()
        parts.append(_part("final norm", None, "norms", norm, gains))
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
        matrices = block_matrices(model).values()
        optimizer_bytes -= sum(matrix.nbytes for matrix, _ in matrices)
    columns = settings.heads * settings.width_of_heads(model.width)
    slot = settings.layers * 2 * columns * model.embedding.itemsize
    by_kind = dict.fromkeys(("embedding", "blocks", "output", "norms"), 0)
    for part in parts:
        by_kind[part.kind] += part.parameters
    return {
        "parameters": sum(by_kind.values()),
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
