"""Damage to files: bytes, JSON values and the header of safetensors. Everything follows from `rng`."""

import copy
import json
import random
import struct
from collections.abc import Callable
from typing import Any

INTEGERS = (0, 1, 127, 255, 65535, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**64 - 1)
TOKENS = (
    *(b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\n", b"\r\n", b"\t", b"\xe2\x80\xa8"),
    *(b"nan", b"-inf", b"1e999", b"010", b"9" * 5000, b"yes", b"null", b"true", b"{}", b"[]"),
    *(b"[" * 20000, b'{"a":' * 20000, b'"', b"\\ud800", b"&a [*a, *a]", b"---\n", b": ", b"- "),
    *(b"<eos>", b"<unk>", b"<|endoftext|>", b"a" * 70000, b"../../etc/passwd"),
    *("\u202e".encode(), "\ufdfa".encode(), "\u0301".encode() * 500, "\U0001f600".encode()),
)
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**31, 2**63, 10**400, 1.5, 1e308, float("nan"), float("inf")),
    *("", "a", "\ud800", [], {}, [1], {"a": 1}, [[[]]], "F16", "U8", "x" * 70000),
)
MOST_BYTES = 1 << 21


def _flip_bits(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def _remove(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    del data[start : start + rng.choice((1, 2, 8, 64))]


def _repeat(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    piece = data[start : start + rng.choice((1, 4, 16, 256))]
    data[start:start] = piece * rng.choice((1, 2, 50))


def _insert(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data) + 1)
    data[start:start] = rng.choice(TOKENS)


def _write_integer(data: bytearray, rng: random.Random) -> None:
    size = rng.choice((1, 2, 4, 8))
    number = (rng.choice(INTEGERS) + rng.choice((-1, 0, 0, 1))) % (1 << 8 * size)
    start = rng.randrange(len(data))
    data[start : start + size] = number.to_bytes(size, rng.choice(("little", "big")))


CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    *(_flip_bits, _flip_bits, _truncate, _remove, _repeat),
    *(_insert, _insert, _write_integer, _write_integer),
)


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """One to four changes."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if changed:
            rng.choice(CHANGES)(changed, rng)
    return bytes(changed[:MOST_BYTES])


def _nodes(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value below a JSON value."""
    nodes: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        container = waiting.pop()
        keys: Any = ()
        if isinstance(container, dict):
            keys = list(container)
        elif isinstance(container, list):
            keys = range(len(container))
        for key in keys:
            nodes.append((container, key))
            waiting.append(container[key])
    return nodes


def mutate_json(value: Any, rng: random.Random) -> Any:
    """A value replaced, removed, renamed or scaled; `value` is changed in place."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        nodes = _nodes(value)
        if not nodes:
            return copy.deepcopy(rng.choice(VALUES))
        container, key = rng.choice(nodes)
        change = rng.choice(("delete", "rename", "scale", "replace", "replace"))
        if change == "delete":
            del container[key]
        elif change == "rename" and isinstance(container, dict):
            container[rng.choice(("", "a", "x" * 1000, f"{key}s"))] = container.pop(key)
        elif change == "scale" and isinstance(container[key], int | float):
            container[key] = rng.choice((container[key] + 1, -container[key], 2**20))
        else:
            container[key] = copy.deepcopy(rng.choice(VALUES))
    return value


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A damaged copy: as JSON or safetensors if it is one, else as bytes."""
    if rng.random() < 0.5:
        try:
            if data[:1] in b"{[":
                return _dump(mutate_json(json.loads(data), rng))
            size = struct.unpack("<Q", data[:8])[0]
            if data[8:9] == b"{" and size < len(data):
                header = _dump(mutate_json(json.loads(data[8 : 8 + size]), rng))
                return struct.pack("<Q", len(header)) + header + data[8 + size :]
        except (ValueError, struct.error, RecursionError):
            pass
    return mutate_bytes(data, rng)
