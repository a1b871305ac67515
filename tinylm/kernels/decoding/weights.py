"""A model's weights laid out for the compiled step: the structures of step.cpp, field by field."""

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tinylm.model.transformer import TinyLM

PANEL = 32  # outputs that are stored together, as in products.h
NORMS = ("layer", "rms", "std")  # in the order of step.cpp
ACTIVATIONS = ("relu", "gelu")
_INTEGER = ctypes.c_int64
_POINTER = ctypes.c_void_p
Layer = tuple[Tensor, Tensor | None]  # weight (N, K) and bias (N,)


class _Norm(ctypes.Structure):
    _fields_ = [("gain", _POINTER), ("bias", _POINTER)]


class _Linear(ctypes.Structure):
    _fields_ = [
        ("weight", _POINTER),
        ("bias", _POINTER),
        ("outputs", _INTEGER),
        ("inputs", _INTEGER),
    ]


class _Block(ctypes.Structure):
    _fields_ = [
        ("norm1", _Norm),
        ("norm2", _Norm),
        ("qkv", _Linear),
        ("out", _Linear),
        ("up", _Linear),
        ("down", _Linear),
    ]


class _Model(ctypes.Structure):
    _fields_ = [
        ("layers", _INTEGER),
        ("width", _INTEGER),
        ("heads", _INTEGER),
        ("head_width", _INTEGER),
        ("feed_forward", _INTEGER),
        ("pre_norm", _INTEGER),
        ("norm_kind", _INTEGER),
        ("gelu", _INTEGER),
        ("final_norm", _INTEGER),
        ("norm_eps", ctypes.c_float),
        ("input_scale", ctypes.c_float),
        ("output_scale", ctypes.c_float),
        ("attention_scale", ctypes.c_float),
        ("embedding", _POINTER),
        ("positions", _POINTER),
        ("rotary", _POINTER),
        ("blocks", ctypes.POINTER(_Block)),
        ("last_norm", _Norm),
        ("output", _Linear),
    ]


def pack(weight: Tensor) -> Tensor:
    """Panels of 32 outputs, the last one filled up with zeros.  (N, K) -> (N / 32, K, 32)"""
    whole = F.pad(weight, (0, 0, 0, -len(weight) % PANEL))
    return whole.unflatten(0, (-1, PANEL)).transpose(1, 2).contiguous()


class PackedWeights:
    """A model's weights as they are now; owns the memory that the compiled step reads.

    All matrices lie in one tensor: every step reads them from first to last, and the system can
    keep a large tensor in pages of 2 MiB.

    structure: `Model` of step.cpp. nbytes: size of the matrices.
    """

    def __init__(self, model: TinyLM) -> None:
        self._tensors: list[Tensor] = []
        settings = model.settings
        attention: Any = model.blocks[0].attention
        weight, bias, output_scale = model.output_layer()
        layers = [layer for block in model.blocks for layer in block_layers(block)]
        *linears, output = self._linears([*layers, (weight, bias)])
        blocks = [
            _Block(self._norm(block.norm1), self._norm(block.norm2), *linears[4 * i : 4 * i + 4])
            for i, block in enumerate(model.blocks)
        ]
        self.structure = _Model(
            layers=settings.layers,
            width=model.width,
            heads=settings.heads,
            head_width=attention.head_width,
            feed_forward=settings.feed_forward,
            pre_norm=settings.norm == "pre",
            norm_kind=NORMS.index(settings.norm_kind),
            gelu=settings.activation == "gelu",
            final_norm=settings.final_norm,
            norm_eps=settings.norm_eps,
            input_scale=float(model.embedding_scale),
            output_scale=float(output_scale),
            attention_scale=attention.scale,
            embedding=self._pointer(model.embedding),
            positions=self._pointer(model.positions),
            rotary=self._pointer(attention.rope_cache),
            blocks=(_Block * settings.layers)(*blocks),
            last_norm=self._norm(model.final_norm) if settings.final_norm else _Norm(),
            output=output,
        )

    def _pointer(self, values: Tensor | None) -> int | None:
        """The address of values, which stay there as long as this object exists; None for None."""
        if values is None:
            return None
        self._tensors.append(values.detach().contiguous())
        return self._tensors[-1].data_ptr()

    def _norm(self, norm: Any) -> _Norm:
        return _Norm(self._pointer(norm.gain), self._pointer(norm.bias))

    def _linears(self, layers: list[Layer]) -> list[_Linear]:
        """The layers, their weights one after another in memory."""
        packed = [pack(weight.detach()).flatten() for weight, _ in layers]
        memory = torch.cat(packed)
        self.nbytes = memory.nbytes
        linears = []
        for part, (weight, bias) in zip(memory.split(list(map(len, packed))), layers, strict=True):
            if bias is not None:
                bias = F.pad(bias.detach(), (0, -len(bias) % PANEL))
            linears.append(_Linear(self._pointer(part), self._pointer(bias), *weight.shape))
        return linears


def block_layers(block: Any) -> list[Layer]:
    """Weight and bias of a block's four linear layers, in the order of `Block` of step.cpp."""
    attention = block.attention
    feed_forward = block.feed_forward
    linears = (attention.qkv, attention.out, feed_forward.up, feed_forward.down)
    return [(linear.weight, linear.bias) for linear in linears]
