"""What a model is made of: parts, shapes, parameters, operations and bytes."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from tinylm.model.recompute import recompute_counts
from tinylm.model.transformer import Block, FeedForward, SelfAttention, TinyLM, block_matrices


@dataclasses.dataclass(frozen=True)
class Part:
    """One line of the table.

    block: its number, or None outside the blocks. kind: embedding, blocks, norms or output.
    flop, per token: of products with weights, forward. attention_flop: of queries with keys and
    weights with values, forward, per token of a full context. A multiply-add counts as 2; norms,
    softmax and activations are left out. recomputed: how often backward repeats the forward pass.
    backward: the gradients that each product needs: of its inputs and of its weights, unless frozen.
    """

    name: str
    block: int | None
    kind: str
    shape: str
    parameters: int
    trainable: bool
    flop: int = 0
    attention_flop: int = 0
    recomputed: int = 0
    backward: int = 2

    @property
    def training_flop(self) -> int:
        """Forward and backward. A gradient of a product takes as many operations as the product."""
        return (1 + self.recomputed + self.backward) * (self.flop + self.attention_flop)


def _part(
    name: str, block: int | None, kind: str, shape: str, parameters: Iterable[Tensor], **flop: int
) -> Part:
    """A part with the number of its parameters; flop: fields of `Part`."""
    tensors = list(parameters)
    size = sum(tensor.numel() for tensor in tensors)
    learns = any(tensor.requires_grad for tensor in tensors)
    return Part(name, block, kind, shape, size, learns, **flop)


def _bias(layer: nn.Linear) -> str:
    return "" if layer.bias is None else " + bias"


def _attention(model: TinyLM, block: Block, number: int, recomputed: int) -> Part:
    attention: SelfAttention = block.attention
    columns = attention.inner
    shape = (
        f"{model.width} -> 3 x {columns}{_bias(attention.qkv)} "
        f"({attention.heads} x {attention.head_width}) -> {model.width}{_bias(attention.out)}"
    )
    return _part(
        "attention",
        number,
        "blocks",
        shape,
        attention.parameters(),
        flop=2 * model.width * 4 * columns,
        attention_flop=2 * 2 * columns * model.settings.context,
        recomputed=recomputed,
    )


def _feed_forward(model: TinyLM, block: Block, number: int, recomputed: int) -> Part:
    layer: FeedForward = block.feed_forward
    inner = layer.up.out_features
    flop = 2 * 2 * model.width * inner
    bias = _bias(layer.up)
    shape = f"{model.width} -> {inner}{bias} {layer.activation} -> {model.width}{bias}"
    weights = layer.parameters()
    return _part("feed-forward", number, "blocks", shape, weights, flop=flop, recomputed=recomputed)


def _output(model: TinyLM) -> Part:
    """The output layer. Tied weights are counted with the embedding, their bias here."""
    parameters = [p for name, p in model.named_parameters() if name.startswith("output")]
    name = "output (tied)" if model.settings.tied_output else "output"
    shape = f"{model.vocab_size} x {model.width}" + " + bias" * model.settings.output_bias
    flop = 2 * model.vocab_size * model.width
    is_frozen = model.settings.tied_output and not model.embedding.requires_grad
    backward = 1 if is_frozen else 2
    return _part(name, None, "output", shape, parameters, flop=flop, backward=backward)


def describe(model: TinyLM) -> list[Part]:
    """The parts in the order in which a token meets them; recomputation is counted."""
    settings = model.settings
    table = f"{model.vocab_size} x {model.width}"
    parts = [_part("embedding", None, "embedding", table, [model.embedding])]

    learned = [model.positions] if isinstance(model.positions, nn.Parameter) else []
    size = (
        "" if settings.positions in ("rotary", "none") else f"{settings.context} x {model.width}, "
    )
    shape = size + settings.positions
    parts.append(_part("positions", None, "embedding", shape, learned))

    norm = f"{model.width}, {settings.norm_kind}"
    counts = recompute_counts(len(model.blocks), getattr(model.run_blocks, "mode", "none"))
    for number, (block, recomputed) in enumerate(zip(model.blocks, counts, strict=True), 1):
        assert isinstance(block, Block)
        norms = [*block.norm1.parameters(), *block.norm2.parameters()]
        parts.append(_part("norms", number, "norms", f"2 x {norm}, {settings.norm}", norms))
        parts.append(_attention(model, block, number, recomputed))
        parts.append(_feed_forward(model, block, number, recomputed))
    if settings.final_norm:
        parts.append(_part("final norm", None, "norms", norm, model.final_norm.parameters()))
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
