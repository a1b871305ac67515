"""A model's weights laid out for the compiled step (products.h, step.cpp)."""

import ctypes
from typing import Any

import torch
from torch import Tensor

from tinylm.kernels.decoding.rounding import PRECISIONS, of_qkv, quantise
from tinylm.kernels.decoding.threads import Threads
from tinylm.model.ragged_heads import head_widths
from tinylm.model.transformer import TinyLM

PANEL, LANES = 32, 16  # as in products.h
NORMS, ACTIVATIONS = ("layer", "rms", "std"), ("relu", "gelu")  # in the order of step.cpp
_INTEGER, _FLOAT, _POINTER = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p


class _Norm(ctypes.Structure):
    _fields_ = [("gain", _POINTER), ("bias", _POINTER)]


class _Linear(ctypes.Structure):
    _fields_ = [
        *((name, _POINTER) for name in ("weight", "scale", "sums", "bias")),
        *((name, _INTEGER) for name in ("outputs", "inputs")),
    ]


class _Block(ctypes.Structure):
    _fields_ = [
        ("norm1", _Norm),
        ("norm2", _Norm),
        *((name, _Linear) for name in ("qkv", "out", "up", "down")),
    ]


class _Model(ctypes.Structure):
    _fields_ = [
        *(
            (name, _INTEGER)
            for name in ("precision", "layers", "width", "heads", "inner", "slot_width")
        ),
        *((name, _INTEGER) for name in ("feed_forward", "vocab", "pre", "norm_kind", "gelu")),
        *((name, _FLOAT) for name in ("norm_eps", "input_scale", "output_factor")),
        ("last_norm", _INTEGER),
        *((name, _POINTER) for name in ("head_starts", "embedding", "positions", "turns")),
        ("blocks", ctypes.POINTER(_Block)),
        ("final_norm", _Norm),
        ("output", _Linear),
        ("output_rows", _POINTER),
    ]


def padded(values: Tensor, size: int) -> Tensor:
    """Values with the first axis padded with zeros to a multiple of `size`."""
    return torch.cat([values, values.new_zeros((-len(values) % size, *values.shape[1:]))])


def pack(weight: Tensor, precision: str) -> Tensor:
    """(N, K) in panels of 32 outputs: (N / 32, K / g, 32, g) with g neighbours in each 32-bit word: 1, 2 or 4.

    One copy where K is a multiple of g, for the first word of a text waits for it.
    """
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}[precision]
    group = 4 // kind.itemsize
    words = torch.nn.functional.pad(weight, (0, -weight.shape[1] % group)).unflatten(
        1, (-1, group)
    )  # (N, K / g, g)
    whole, rest = divmod(len(words), PANEL)
    packed = torch.empty(whole + (rest > 0), words.shape[1], PANEL, group, dtype=kind)
    packed[:whole] = words[: whole * PANEL].unflatten(0, (whole, PANEL)).transpose(1, 2)
    if rest:
        packed[whole, :, :rest] = words[whole * PANEL :].transpose(0, 1)
        packed[whole, :, rest:] = 0
    return packed


class PackedModel:
    """A model's current weights in one precision; owns the memory that the compiled step reads."""

    def __init__(self, model: TinyLM, precision: str) -> None:
        self._kept: list[Tensor] = []
        self.product_bytes = 0  # of the matrices that every step reads
        self.spare: list[Tensor] = []  # a cache that no session uses any more
        self.threads: dict[
            tuple[int, int], Threads
        ] = {}  # for steps of so many rows, of so many at most
        self.precision, self.settings, self.vocab_size = precision, model.settings, model.vocab_size
        settings = model.settings
        first: Any = model.blocks[0].attention
        widths = head_widths(first.inner, settings.heads)
        self.slot_width = -(-widths[0] // LANES) * LANES
        blocks = (_Block * settings.layers)(*map(self._block, model.blocks))
        weight, bias, factor = model.output_layer()
        self.structure = _Model(
            PRECISIONS.index(precision), settings.layers, model.width, settings.heads, first.inner, self.slot_width,
            settings.feed_forward, model.vocab_size, settings.norm == "pre", NORMS.index(settings.norm_kind),
            ACTIVATIONS.index(settings.activation), settings.norm_eps, float(model.embedding_scale), factor,
            settings.final_norm, self._keep(torch.tensor([0, *widths]).cumsum(0)), self._keep(model.embedding),
            self._keep(model.positions), self._keep(first.rope_cache),
            blocks, self._norm(model.final_norm) if settings.final_norm else _Norm(),
            self._linear(weight, bias, precision), self._keep(weight) if precision == "int8" else None,
        )  # fmt: skip

    def _keep(self, values: Tensor | None) -> int | None:
        """The address of values, which stay in place as long as this object exists."""
        if values is None:
            return None
        self._kept.append(values.detach().contiguous())
        return self._kept[-1].data_ptr()

    def _norm(self, norm: Any) -> _Norm:
        return _Norm(self._keep(norm.gain), self._keep(norm.bias))

    def _linear(self, weight: Tensor, bias: Tensor | None, precision: str) -> _Linear:
        weight = weight.detach()
        scale = sums = None
        if precision == "int8":
            weight, units = quantise(weight)
            scale = self._keep(padded(units[:, 0], PANEL))
            sums = self._keep(padded(weight.sum(1).int(), PANEL))
        offset = None if bias is None else self._keep(padded(bias.detach(), PANEL))
        packed = pack(weight, precision)
        self.product_bytes += packed.nbytes
        return _Linear(self._keep(packed), scale, sums, offset, *weight.shape)

    def _block(self, block: Any) -> _Block:
        kind, qkv = self.precision, block.attention.qkv
        others = block.attention.out, block.feed_forward.up, block.feed_forward.down
        norms = self._norm(block.norm1), self._norm(block.norm2)
        first = self._linear(qkv.weight, qkv.bias, of_qkv(kind))
        return _Block(
            *norms, first, *(self._linear(layer.weight, layer.bias, kind) for layer in others)
        )
