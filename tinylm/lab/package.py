"""A model's tensors as the bytes that the page holds, and bytes as characters of an HTML file.

The page is windows-1252, where each byte is one character: a file of 1.02 bytes for each byte, where base64 takes 1.33.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

GROUP = 64  # numbers that share a scale in int4
FORMATS = ("float32", "int8", "int4")
_CHANGED = b"=\0\r<"  # the escape itself; HTML drops NUL and turns CR into LF, and "<" could end the element
_HIGH = (
    "\u20ac\x81\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\x8d\u017d\x8f"
    "\x90\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\x9d\u017e\u0178"
)
_CHARACTER_OF = dict(
    enumerate(_HIGH, start=0x80)
)  # the others are the code points of the same number
_BYTE_OF = {ord(character): byte for byte, character in _CHARACTER_OF.items()}


def quantise(values: np.ndarray, form: str) -> tuple[np.ndarray, bytes]:
    """The numbers as the format keeps them, float32 in the same shape, and its bytes.

    int8: a float32 scale for each row, numbers -127 to 127 (the row's largest). int4: a scale for each 64 numbers in
    order, the upper half of a float32, numbers -7 to 7, written plus 8, two in a byte.
    """
    values = np.ascontiguousarray(values, dtype="<f4")
    if form == "float32":
        return values, values.tobytes()
    if form == "int8":
        rows, steps = values.reshape(len(values), -1), 127
    else:
        flat = values.ravel()
        rows, steps = np.pad(flat, (0, -len(flat) % GROUP)).reshape(-1, GROUP), 7
    scales = (np.abs(rows).max(axis=1) / steps).astype("<f4")
    upper = (scales.view("<u4") >> 16).astype("<u2")
    if form == "int4":
        scales = (upper.astype("<u4") << 16).view("<f4")
    whole = (
        np.rint(rows / np.where(scales > 0, scales, 1)[:, None]).clip(-steps, steps).astype(np.int8)
    )
    kept = (whole * scales[:, None]).astype("<f4").ravel()[: values.size].reshape(values.shape)
    if form == "int8":
        return kept, scales.tobytes() + whole.tobytes()
    halves = (whole.ravel() + 8).astype(np.uint8)
    return kept, upper.tobytes() + (halves[0::2] | (halves[1::2] << 4)).tobytes()


def pack(
    tensors: Mapping[str, np.ndarray], matrices: str
) -> tuple[list[dict[str, Any]], bytes, dict[str, np.ndarray]]:
    """(what the bytes are, the bytes deflated, the tensors as the page will compute with them).

    matrices: the format of tensors with two axes; the others are float32.
    """
    entries, parts, kept = [], [], {}
    for name, values in tensors.items():
        form = matrices if values.ndim == 2 else "float32"
        kept[name], data = quantise(values, form)
        entries.append(
            {"name": name, "shape": list(values.shape), "format": form, "bytes": len(data)}
        )
        parts.append(data)
    return entries, zlib.compress(b"".join(parts), 9), kept


def as_text(data: bytes) -> str:
    """The bytes as characters of windows-1252; those that HTML would change as "=" and the byte 64 higher."""
    for byte in _CHANGED:
        data = data.replace(bytes([byte]), bytes([_CHANGED[0], byte + 64]))
    return characters(data)


def characters(page: bytes) -> str:
    """What a browser reads of bytes in windows-1252."""
    return page.decode("latin-1").translate(_CHARACTER_OF)


def to_bytes(page: str) -> bytes:
    """A page in windows-1252. Raises UnicodeEncodeError for a character that it lacks."""
    return page.translate(_BYTE_OF).encode("latin-1")
