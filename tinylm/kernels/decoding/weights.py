"""A model's weights laid out for the compiled step: the structures of step.cpp, field by field."""

import ctypes
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from tinylm.model.ragged_heads import RaggedSelfAttention
from tinylm.model.transformer import TinyLM

PANEL = 32  # outputs that are stored together, as in products.h
NORMS = ("layer", "rms", "std")  # in the order of step.cpp
ACTIVATIONS = ("relu", "gelu")
_INTEGER, _FLOAT, _POINTER = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p


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
        ("norm_eps", _FLOAT),
        ("input_scale", _FLOAT),
        ("output_scale", _FLOAT),
        ("embedding", _POINTER),
        ("positions", _POINTER),
        ("rotary", _POINTER),
        ("scales", _POINTER),
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

    structure: `Model` of step.cpp.
    nbytes: size of the matrices, all of which every step reads.
    """

    def __init__(self, model: TinyLM) -> None:
        self._tensors: list[Tensor] = []
        self.nbytes = 0
        settings = model.settings
        attention: Any = model.blocks[0].attention
        blocks = [self._block(block) for block in model.blocks]
        weight, bias, output_scale = model.output_layer()
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
            embedding=self._pointer(model.embedding),
            positions=self._pointer(model.positions),
            rotary=self._pointer(attention.rope_cache),
            scales=self._pointer(attention.scale.flatten()),
            blocks=(_Block * settings.layers)(*blocks),
            last_norm=self._norm(model.final_norm) if settings.final_norm else _Norm(),
            output=self._linear(weight, bias),
        )

    def _pointer(self, values: Tensor | None) -> int | None:
        """The address of values, which stay there as long as this object exists."""
        if values is None:
            return None
        self._tensors.append(values.detach().contiguous())
        return self._tensors[-1].data_ptr()

    def _norm(self, norm: Any) -> _Norm:
        return _Norm(self._pointer(norm.gain), self._pointer(norm.bias))

    def _linear(self, weight: Tensor, bias: Tensor | None) -> _Linear:
        packed = pack(weight.detach())
        self.nbytes += packed.nbytes
        if bias is not None:
            bias = F.pad(bias.detach(), (0, -len(bias) % PANEL))
        return _Linear(self._pointer(packed), self._pointer(bias), *weight.shape)

    def _block(self, block: Any) -> _Block:
        attention = block.attention
        feed_forward = block.feed_forward
        qkv = attention.qkv.weight, attention.qkv.bias
        out = attention.out.weight
        if isinstance(attention, RaggedSelfAttention):
            qkv = attention.padded_qkv()
            out = attention.padded_out()
        return _Block(
            norm1=self._norm(block.norm1),
            norm2=self._norm(block.norm2),
            qkv=self._linear(*qkv),
            out=self._linear(out, attention.out.bias),
            up=self._linear(feed_forward.up.weight, feed_forward.up.bias),
            down=self._linear(feed_forward.down.weight, feed_forward.down.bias),
        )
