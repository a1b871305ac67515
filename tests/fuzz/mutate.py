"""Damage to the bytes of a file. Everything follows from `rng`."""

import random

INTEGERS = (0, 1, 127, 255, 65535, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63, 2**64 - 1)
TOKENS = (
    *(b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\n", b"\r\n", b"\t", b"\xe2\x80\xa8"),
    *(b"nan", b"-inf", b"1e999", b"010", b"9" * 5000, b"yes", b"null", b"true", b"{}", b"[]"),
    *(b"[" * 20000, b'{"a":' * 20000, b'"', b"\\ud800", b"&a [*a, *a]", b"---\n", b": ", b"- "),
    *(b"<eos>", b"<unk>", b"<|endoftext|>", b"a" * 70000, b"../../etc/passwd"),
    *("\u202e".encode(), "\ufdfa".encode(), "\u0301".encode() * 500, "\U0001f600".encode()),
)
MOST_BYTES = 1 << 21


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A copy with one to four changes."""
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
