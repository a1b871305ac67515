"""Damage to files: a small mutator over bytes, JSON and the header of safetensors; everything from one seed."""

import copy
import json
import random
import struct
from typing import Any

INTEGERS = (
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    65535,
    65536,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**53,
    2**63 - 1,
    2**64 - 1,
)
TOKENS = (
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\n", b"\r", b"\r\n", b"\t", b" ", b"\xe2\x80\xa8", b"\xc2\x85",
    b"nan", b"NaN", b"-inf", b"Infinity", b"1e999", b"1e-999", b"-0", b"010", b"0x", b"1_0", b"9" * 5000, b"yes",
    b"[" * 20000, b"{\"a\":" * 20000, b"]", b"}", b"\"", b"'", b"\\", b"\\ud800", b"\\u0000", b"null", b"true", b"{}",
    b"[]", b"&a [*a, *a]", b"<<: ", b"!!python/object:os.system ", b"%YAML 1.1\n---\n", b"---\n", b": ", b"- ", b"#",
    b"<eos>", b"<unk>", b"</s>", b"<|endoftext|>", b"<sos>", "\u202e\u200f".encode(), "\ufdfa".encode(),
    "\u0301".encode() * 500, "\U0001f600".encode(), b"a" * 70000, b"../../etc/passwd", b"/dev/zero",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 1.5, 1e308, float("nan"), float("inf"), "", "a", "\ud800", "1",
    [], {}, [1], {"a": 1}, [[[]]], "F32", "F16", "BF16", "I64", "U8", "x" * 70000,
)  # fmt: skip
MOST = 1 << 21  # bytes of a mutated file


def _flip(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def _remove(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    del data[start : start + rng.choice((1, 1, 2, 4, 8, 64))]


def _repeat(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    piece = data[start : start + rng.choice((1, 4, 16, 256))]
    data[start:start] = piece * rng.choice((1, 1, 2, 50))


def _insert(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data) + 1)
    data[start:start] = rng.choice(TOKENS)


def _overwrite(data: bytearray, rng: random.Random) -> None:
    token = rng.choice(TOKENS)[:64]
    start = rng.randrange(len(data))
    data[start : start + len(token)] = token


def _integer(data: bytearray, rng: random.Random) -> None:
    size = rng.choice((1, 2, 4, 8))
    number = (rng.choice(INTEGERS) * rng.choice((1, -1)) + rng.choice((0, 0, 1, -1))) % (
        1 << 8 * size
    )
    start = rng.randrange(len(data)) & ~(rng.choice((0, size - 1)))
    data[start : start + size] = number.to_bytes(size, rng.choice(("little", "big")))


def _swap(data: bytearray, rng: random.Random) -> None:
    first, second = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    data[:] = data[second:] + data[first:second] + data[:first]


BYTES = (
    _flip,
    _flip,
    _cut,
    _remove,
    _repeat,
    _insert,
    _insert,
    _overwrite,
    _integer,
    _integer,
    _swap,
)


def mutate_bytes(data: bytes, rng: random.Random, other: bytes = b"") -> bytes:
    """One to four changes; sometimes the head of one file and the tail of another."""
    changed = bytearray(data)
    if other and rng.random() < 0.1:
        changed = (
            changed[: rng.randrange(len(changed) + 1)] + other[rng.randrange(len(other) + 1) :]
        )
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if changed:
            rng.choice(BYTES)(changed, rng)
    return bytes(changed[:MOST])


def _places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every node of a JSON value."""
    found: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        node = stack.pop()
        keys = (
            list(node)
            if isinstance(node, dict)
            else range(len(node))
            if isinstance(node, list)
            else ()
        )
        for key in keys:
            found.append((node, key))
            stack.append(node[key])
    return found


def mutate_json(value: Any, rng: random.Random) -> Any:
    """A value, key or element replaced, removed, added or moved; `value` must not be used again."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        places = _places(value)
        if not places:
            return copy.deepcopy(rng.choice(VALUES))
        node, key = rng.choice(places)
        way = rng.randrange(6)
        if way == 0:
            del node[key]
        elif way == 1:
            other, place = rng.choice(places)
            held = place in (other if isinstance(other, dict) else range(len(other)))
            node[key] = copy.deepcopy(other[place]) if held else None
        elif way == 2 and isinstance(node, dict):
            node[rng.choice(("", "a", "\ud800", "x" * 1000, str(key) + "s"))] = node.pop(key)
        elif way == 3 and isinstance(node, list):
            node.insert(rng.randrange(len(node) + 1), copy.deepcopy(rng.choice(VALUES)))
        elif way == 4 and isinstance(node[key], (int, float)):
            node[key] = rng.choice((node[key] + 1, node[key] - 1, -node[key], node[key] * 2**20))
        else:
            node[key] = copy.deepcopy(rng.choice(VALUES))
    return value


def _dumped(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):  # a value that was moved into itself
        return b"{}"


def mutate(data: bytes, rng: random.Random, other: bytes = b"") -> bytes:
    """A damaged copy: as JSON or safetensors where it is that, else or by chance as bytes."""
    if rng.random() < 0.5:
        try:
            if data[:1] in b"{[":
                return _dumped(mutate_json(json.loads(data), rng))
            size = struct.unpack("<Q", data[:8])[0]
            if data[8:9] == b"{" and size < len(data):
                header = _dumped(mutate_json(json.loads(data[8 : 8 + size]), rng))
                return struct.pack("<Q", len(header)) + header + data[8 + size :]
        except (ValueError, struct.error, RecursionError):
            pass
    return mutate_bytes(data, rng, other)
