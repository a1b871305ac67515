"""Our blocks on the channels of a stock architecture, in float64, before they are renamed."""

import dataclasses

import torch
from torch import Tensor, nn

from tinylm.exchange.stream import EPSILON, Stream
from tinylm.model.transformer import Block, Norm, TinyLM

Affine = tuple[
    Tensor, Tensor
]  # of a linear layer: weight (out, in), bias (out); of a norm: gain, bias


@dataclasses.dataclass(frozen=True)
class StockBlock:
    """One block: y = W x + b for each linear layer, gain and bias for each norm; all are present."""

    norm1: Affine
    queries: Affine
    keys: Affine
    values: Affine
    out: Affine
    norm2: Affine
    up: Affine
    down: Affine


def exact(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().double()


def _affine(layer: nn.Linear) -> Affine:
    weight = exact(layer.weight)
    return weight, weight.new_zeros(weight.shape[0]) if layer.bias is None else exact(layer.bias)


def of_norm(norm: Norm) -> Affine:
    gain = exact(norm.gain)
    return gain, torch.zeros_like(gain) if norm.bias is None else exact(norm.bias)


def _reading(stream: Stream, weight: Tensor, post: bool) -> Tensor:
    """The weight, on W channels, of a layer that reads D: those of a norm's output, or (post) of the stream itself."""
    return stream.first(weight / stream.scale if post else weight)


def _attention(stream: Stream, block: Block) -> tuple[Affine, Affine, Affine, Affine]:
    heads = block.attention.heads
    joined, joined_bias = _affine(block.attention.qkv)
    projections = []
    for part, (weight, bias) in enumerate(zip(joined.chunk(3), joined_bias.chunk(3), strict=True)):
        rows = stream.head_rows(torch.cat([weight, bias[:, None]], 1), heads, queries=part == 0)
        projections.append((_reading(stream, rows[:, :-1], not block.pre), rows[:, -1]))
    queries, keys, values = projections
    weight, bias = _affine(block.attention.out)
    out = stream.write(stream.head_rows(weight.T, heads)).T, stream.write(bias)
    return queries, keys, values, out


def stock_block(stream: Stream, block: Block) -> StockBlock:
    """A block of ours on the stream."""
    queries, keys, values, out = _attention(stream, block)
    up, up_bias = _affine(block.feed_forward.up)
    down, down_bias = _affine(block.feed_forward.down)
    place = stream.norm_out if block.pre else stream.norm_on
    return StockBlock(
        norm1=place(*of_norm(block.norm1)),
        queries=queries,
        keys=keys,
        values=values,
        out=out,
        norm2=place(*of_norm(block.norm2)),
        up=(_reading(stream, up, not block.pre), up_bias),
        down=(stream.write(down, 0), stream.write(down_bias)),
    )


def _norm_alone(stream: Stream, last: Block, final: Norm, inner: int) -> tuple[Affine, StockBlock]:
    """A final norm after post-norm blocks, as one more block that adds nothing: norm2 of the last block, that block.

    It has two norms although one is needed, but the norm of a norm is a norm: with e1 on x and then e2 = EPSILON,
    n = x / sqrt(v + e1) and n / sqrt(v / (v + e1) + e2) = x / sqrt((1 + e2) (v + e2 e1 / (1 + e2))).
    The stream's size there is such that e2 e1 / (1 + e2) is norm_eps.
    """
    size = EPSILON / (stream.share * stream.norm_eps * (1 + EPSILON)) ** 0.5
    before = stream.norm_on(*of_norm(last.norm2), scale=size)
    gain, bias = of_norm(final)
    wide = stream.wide
    square: Affine = torch.zeros(wide, wide, dtype=gain.dtype), torch.zeros(wide, dtype=gain.dtype)
    block = StockBlock(
        norm1=stream.norm_on(
            torch.ones_like(gain), torch.zeros_like(bias), scale=stream.share**-0.5
        ),
        queries=square,
        keys=square,
        values=square,
        out=square,
        norm2=stream.norm_out(gain * (1 + EPSILON) ** 0.5, bias),
        up=(torch.zeros(inner, wide, dtype=gain.dtype), torch.zeros(inner, dtype=gain.dtype)),
        down=(torch.zeros(wide, inner, dtype=gain.dtype), torch.zeros(wide, dtype=gain.dtype)),
    )
    return before, block


def stock_blocks(stream: Stream, model: TinyLM) -> list[StockBlock]:
    """All blocks. Those of a post-norm model end with a norm that is read through its first D channels."""
    ours = [block for block in model.blocks if isinstance(block, Block)]
    blocks = [stock_block(stream, block) for block in ours]
    if model.settings.norm == "pre":
        return blocks
    if isinstance(model.final_norm, Norm):
        before, more = _norm_alone(stream, ours[-1], model.final_norm, model.settings.feed_forward)
        return [*blocks[:-1], dataclasses.replace(blocks[-1], norm2=before), more]
    return [
        *blocks[:-1],
        dataclasses.replace(blocks[-1], norm2=stream.norm_out(*of_norm(ours[-1].norm2))),
    ]
