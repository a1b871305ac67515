"""Damage to files: bytes, JSON values and the header of safetensors. Everything follows from `rng`."""

import copy
import json
import random
import struct
from typing import Any

INTEGERS = (0, 1, 127, 255, 65535, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63, 2**64 - 1)
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


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """One to four changes."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not changed:
            break
        start = rng.randrange(len(changed))
        end = start + rng.choice((1, 2, 8, 64))
        match rng.choice(("flip", "truncate", "remove", "repeat", "insert", "integer")):
            case "flip":
                changed[start] ^= 1 << rng.randrange(8)
            case "truncate":
                del changed[start:]
            case "remove":
                del changed[start:end]
            case "repeat":
                changed[start:start] = changed[start:end] * rng.choice((1, 2, 50))
            case "insert":
                changed[start:start] = rng.choice(TOKENS)
            case "integer":
                size = rng.choice((1, 2, 4, 8))
                number = rng.choice(INTEGERS) % (1 << 8 * size)
                changed[start : start + size] = number.to_bytes(size, "little")
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


def mutate_json(text: bytes, rng: random.Random) -> bytes:
    """Values replaced, removed or renamed. Raises ValueError for what is not JSON."""
    root = [json.loads(text)]
    for _ in range(rng.choice((1, 1, 2, 4))):
        container, key = rng.choice(_nodes(root))
        change = rng.choice(("delete", "rename", "replace", "replace"))
        if change == "delete" and container is not root:
            del container[key]
        elif change == "rename" and isinstance(container, dict):
            container[rng.choice(("", "a", "x" * 1000, f"{key}s"))] = container.pop(key)
        else:
            container[key] = copy.deepcopy(rng.choice(VALUES))
    return json.dumps(root[0], ensure_ascii=False).encode("utf-8", "surrogatepass")


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A damaged copy: as JSON or safetensors if it is one, else as bytes."""
    if rng.random() < 0.5:
        try:
            if data[:1] in b"{[":
                return mutate_json(data, rng)
            size = struct.unpack("<Q", data[:8])[0]
            if data[8:9] == b"{" and size < len(data):
                header = mutate_json(data[8 : 8 + size], rng)
                return struct.pack("<Q", len(header)) + header + data[8 + size :]
        except (ValueError, struct.error):
            pass
    return mutate_bytes(data, rng)
