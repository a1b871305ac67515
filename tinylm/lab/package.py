"""A model's tensors as the text that the page holds: quantised, deflated, in base64."""

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

FORMATS = ("float32", "int8")


def quantise(values: np.ndarray, form: str) -> tuple[np.ndarray, bytes]:
    """The numbers as the format holds them, float32 in the same shape, and their bytes.

    int8: a float32 scale for each row, then numbers from -127 to 127, the row's largest.
    """
    values = np.ascontiguousarray(values, dtype="<f4")
    if form == "float32":
        return values, values.tobytes()
    rows = values.reshape(len(values), -1)
    scales = (np.abs(rows).max(axis=1) / 127).astype("<f4")
    divisors = np.where(scales > 0, scales, 1)[:, None]
    integers = np.rint(rows / divisors).clip(-127, 127).astype(np.int8)
    rounded = (integers * scales[:, None]).astype("<f4").reshape(values.shape)
    return rounded, scales.tobytes() + integers.tobytes()


def pack(
    tensors: Mapping[str, np.ndarray], matrices: str
) -> tuple[list[dict[str, Any]], str, dict[str, np.ndarray]]:
    """(what the bytes are, the bytes as text, the tensors as the page will compute with them).

    matrices: the format of tensors with two axes; the others are float32.
    """
    entries = []
    parts = []
    rounded = {}
    for name, values in tensors.items():
        form = matrices if values.ndim == 2 else "float32"
        rounded[name], data = quantise(values, form)
        shape = list(values.shape)
        entries.append({"name": name, "shape": shape, "format": form, "bytes": len(data)})
        parts.append(data)
    deflated = zlib.compress(b"".join(parts), 9)
    return entries, base64.b64encode(deflated).decode("ascii"), rounded
