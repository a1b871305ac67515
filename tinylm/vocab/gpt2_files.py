"""GPT-2's vocabulary in each of the layouts in which it is distributed, read into tokens and merges.

A folder has vocab.json and merges.txt (Hugging Face) or encoder.json and vocab.bpe (OpenAI). A .tiktoken file has one
line "base64 of the token's bytes, rank" per token, and the merges follow from the ranks. Whatever the layout, the
result must be the published vocabulary, to the byte.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from tinylm.base.config import InputError
from tinylm.vocab.byte_level import CHARACTER_OF

END_OF_TEXT = "<|endoftext|>"
SIZE = 50_257
PUBLISHED_SHA256 = "9e52e2d09323136cf31fca11e3a80463fe013e9ccfa1c04ac36c8bb825af904d"
LAYOUTS = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
MAX_FILE_BYTES = 1 << 24

Parts = tuple[
    list[str], list[tuple[str, str]]
]  # tokens in the order of their ids, merges in the order of their ranks


def read_local(path: Path) -> Parts:
    """Tokens, `<|endoftext|>` left out, and merges. Raises InputError naming file and line."""
    if path.is_file() and path.suffix == ".tiktoken":
        return _read_tiktoken(path)
    for vocabulary, merges in LAYOUTS:
        if (path / vocabulary).is_file() and (path / merges).is_file():
            return _read_vocabulary(path / vocabulary), _read_merges(path / merges)
    names = ", or ".join(" and ".join(pair) for pair in LAYOUTS)
    raise InputError(
        f"vocab.path = {str(path)!r}: allowed: a folder with {names}; or a .tiktoken file"
    )


def check_vocabulary(
    tokens: Sequence[str], merges: Sequence[tuple[str, str]], path: str | Path
) -> None:
    """InputError if this is not GPT-2's vocabulary; checks its size first, then its SHA-256."""
    if len(tokens) != SIZE or len(merges) != SIZE - 257:
        raise InputError(
            f"{path}: {len(tokens):,} ids and {len(merges):,} merges; GPT-2 has {SIZE:,} and {SIZE - 257:,}"
        )
    if vocabulary_sha256(tokens, merges) != PUBLISHED_SHA256:
        raise InputError(
            f"{path}: not GPT-2's published vocabulary: a token or a merge differs; download it again"
        )


def vocabulary_sha256(tokens: Sequence[str], merges: Sequence[tuple[str, str]]) -> str:
    """Hex SHA-256 over one line per token, then one line per merge."""
    lines = [*tokens, *(f"{left} {right}" for left, right in merges)]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(
                f"{path}: larger than {MAX_FILE_BYTES} bytes; not one of GPT-2's files"
            )
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, byte {error.start}: not UTF-8; download the file again"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def _read_vocabulary(path: Path) -> list[str]:
    try:
        ids = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({str(error)[:80]}); download the file again") from None
    if not isinstance(ids, dict) or any(type(index) is not int for index in ids.values()):
        raise InputError(f"{path}: allowed: an object of tokens and their ids")
    tokens = sorted(ids, key=ids.__getitem__)
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise InputError(
            f"{path}: ids are not 0 to {len(tokens) - 1}, each once; download the file again"
        )
    if tokens[-1:] != [END_OF_TEXT]:
        raise InputError(f"{path}: the last id is not {END_OF_TEXT}; download the file again")
    return tokens[:-1]


def _read_merges(path: Path) -> list[tuple[str, str]]:
    merges = []
    for number, line in enumerate(_text(path).rstrip("\n").split("\n"), start=1):
        if number == 1 and line.startswith("#version"):
            continue
        left, _, right = line.rstrip("\r").partition(" ")
        if not left or not right or " " in right:
            raise InputError(
                f"{path}, line {number}: {line[:40]!r}; allowed: two tokens separated by a space"
            )
        merges.append((left, right))
    return merges


def _read_tiktoken(path: Path) -> Parts:
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(_text(path).splitlines(), start=1):
        encoded, _, rank = line.partition(" ")
        try:
            token = base64.b64decode(encoded, validate=True)
            if not token or token in ranks or int(rank) != len(ranks):
                raise ValueError
        except (ValueError, binascii.Error):
            raise InputError(
                f"{path}, line {number}: {line[:40]!r}; allowed: a new token in base64 and its rank, {len(ranks)}"
            ) from None
        ranks[token] = len(ranks)
    tokens = list(ranks)
    return [_shown(token) for token in tokens], [
        _halves(token, ranks, path) for token in tokens[256:]
    ]


def _halves(token: bytes, ranks: Mapping[bytes, int], path: Path) -> tuple[str, str]:
    """The two tokens whose merge makes `token`: what merging with the earlier ranks alone leaves of it."""
    parts = [token[i : i + 1] for i in range(len(token))]
    limit = ranks[token]
    while len(parts) > 2:
        pairs = [ranks.get(left + right, limit) for left, right in pairwise(parts)]
        lowest = min(pairs)
        if lowest >= limit:
            break
        at = pairs.index(lowest)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    if len(parts) != 2 or not all(ranks.get(part, limit) < limit for part in parts):
        raise InputError(
            f"{path}, line {limit + 1}: no two earlier tokens make it; download the file again"
        )
    return _shown(parts[0]), _shown(parts[1])


def _shown(token: bytes) -> str:
    return "".join(map(CHARACTER_OF.__getitem__, token))
