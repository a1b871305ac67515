"""GPT-2's own vocabulary: 50,257 byte-level tokens, as published (Radford et al. 2019).

Ids 0 to 255 are bytes, each further id is the merge of its rank. The last one, `<|endoftext|>`, has
every special role: it begins a story, ends it and pads.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from tinylm.base.config import InputError
from tinylm.vocab.bpe import BpeTokenizer, Merges
from tinylm.vocab.settings import GPT2_SIZE, VocabSettings

PUBLISHED_SHA256 = "9e52e2d09323136cf31fca11e3a80463fe013e9ccfa1c04ac36c8bb825af904d"
LAYOUTS = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))  # Hugging Face's, OpenAI's
HUB_TIMEOUT_S = 10.0


class Gpt2Tokenizer(BpeTokenizer):
    """GPT-2's tokens; text that spells `<|endoftext|>` is ordinary text."""

    kind = "gpt2"

    def __init__(self, tokens: Sequence[str], merges: Merges):
        """`tokens`: all of them in the order of their ids, `<|endoftext|>` the last one."""
        end = len(tokens) - 1
        super().__init__(tokens, merges, lower_case=False, specials=(end, end, end))


def open_published(tokens: Sequence[str], merges: Merges, path: str | Path) -> Gpt2Tokenizer:
    """The tokenizer of these parts. Raises InputError if they are not GPT-2's, to the byte."""
    if vocabulary_sha256(tokens, merges) != PUBLISHED_SHA256:
        raise InputError(
            f"{path}: not GPT-2's published vocabulary of {GPT2_SIZE:,} tokens: a token or a merge "
            "differs; download it again"
        )
    return Gpt2Tokenizer(tokens, merges)


def vocabulary_sha256(tokens: Sequence[str], merges: Merges) -> str:
    """Hex SHA-256 over one line per token, then one line per merge."""
    lines = [*tokens, *(f"{left} {right}" for left, right in merges)]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def load_gpt2(settings: VocabSettings) -> Gpt2Tokenizer:
    """The vocabulary that `path` or `hub_id` names. Raises InputError if it is not GPT-2's."""
    if settings.hub_id is None:
        folder = Path(settings.path)
    else:
        folder = _from_hub(settings.hub_id, settings.hub_revision or "main")
    tokens, merges = read_folder(folder)
    return open_published(tokens, merges, folder)


def read_folder(folder: Path) -> tuple[list[str], list[tuple[str, str]]]:
    """(tokens, merges) of a folder that has the files of one of LAYOUTS. Raises InputError."""
    for vocabulary, merges in LAYOUTS:
        if (folder / vocabulary).is_file() and (folder / merges).is_file():
            try:
                return _read_tokens(folder / vocabulary), _read_merges(folder / merges)
            except (OSError, ValueError, RecursionError, TypeError, AttributeError) as error:
                reason = str(error)[:80]
                raise InputError(
                    f"{folder}: {vocabulary} or {merges} is damaged ({reason}); download it again"
                ) from None
    names = ", or ".join(" and ".join(layout) for layout in LAYOUTS)
    raise InputError(f"vocab.path = {str(folder)!r}: allowed: a folder with {names}")


def _read_tokens(path: Path) -> list[str]:
    ids = json.loads(path.read_text(encoding="utf-8"))
    return sorted(ids, key=ids.get)


def _read_merges(path: Path) -> list[tuple[str, str]]:
    merges = []
    for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n"):
        if not line.startswith("#version"):
            left, right = line.rstrip("\r").split(" ")
            merges.append((left, right))
    return merges


def _from_hub(hub_id: str, revision: str) -> Path:
    """The folder into which the hub's library has downloaded the two files."""
    import huggingface_hub

    try:
        for name in LAYOUTS[0]:
            file = huggingface_hub.hf_hub_download(
                hub_id, name, revision=revision, etag_timeout=HUB_TIMEOUT_S
            )
    except Exception as error:  # offline, no network, no such id, revision or file, refused
        lines = str(error).splitlines() or [""]
        raise InputError(
            f"vocab.hub_id = {hub_id!r}, revision {revision!r}: the hub cannot be read "
            f"({type(error).__name__}: {lines[0][:160]}); check both, or name a local copy in "
            "vocab.path"
        ) from None
    return Path(file).parent
