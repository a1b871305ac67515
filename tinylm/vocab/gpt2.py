"""GPT-2's own vocabulary: 50,257 byte-level tokens, as published (Radford et al. 2019).

Ids 0 to 255 are bytes, each further id is the merge of its rank. The last one, `<|endoftext|>`, has
every special role: it begins a story, ends it and pads.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tinylm.base.config import InputError
from tinylm.download.readers import first_line, reading_hub
from tinylm.vocab.bpe import BpeTokenizer, Merges
from tinylm.vocab.settings import VocabSettings

PUBLISHED_SHA256 = "9e52e2d09323136cf31fca11e3a80463fe013e9ccfa1c04ac36c8bb825af904d"
LAYOUTS = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))  # Hugging Face's, OpenAI's


class Gpt2Tokenizer(BpeTokenizer):
    """GPT-2's tokens; text that spells `<|endoftext|>` is ordinary text."""

    kind = "gpt2"

    def __init__(self, tokens: Sequence[str], merges: Merges):
        """`tokens`: all of them in the order of their ids, `<|endoftext|>` the last one."""
        end = len(tokens) - 1
        super().__init__(tokens, merges, lower_case=False, specials=(end, end, end))


def published(tokens: Sequence[str], merges: Merges) -> Gpt2Tokenizer:
    """The tokenizer of these parts. Raises ValueError if they are not GPT-2's, to the byte."""
    if vocabulary_sha256(tokens, merges) != PUBLISHED_SHA256:
        raise ValueError("not GPT-2's published vocabulary: a token or a merge differs")
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
        folder = _from_hub(settings.hub_id, settings.hub_revision)
    try:
        return published(*read_folder(folder))
    except ValueError as error:
        raise InputError(f"{folder}: {error}; download it again") from None


def read_folder(folder: Path) -> tuple[list[str], Merges]:
    """(tokens, merges) of a folder that has the files of one of LAYOUTS. Raises InputError."""
    from tokenizers import models

    for layout in LAYOUTS:
        vocabulary, merges = (folder / name for name in layout)
        if not (vocabulary.is_file() and merges.is_file()):
            continue
        try:
            ids, pairs = models.BPE.read_file(str(vocabulary), str(merges))
            return sorted(ids, key=ids.__getitem__), pairs
        except Exception as error:  # the library raises nothing more specific
            reason = first_line(error)
            raise InputError(f"{folder}: {reason}; download {' and '.join(layout)} again") from None
    names = ", or ".join(" and ".join(layout) for layout in LAYOUTS)
    raise InputError(f"vocab.path = {str(folder)!r}: allowed: a folder with {names}")


def _from_hub(hub_id: str, revision: str | None) -> Path:
    """The folder into which the hub's library has downloaded the two files."""
    import huggingface_hub

    with reading_hub(f"vocab.hub_id = {hub_id!r}, revision {revision!r}", "vocab.path"):
        for name in LAYOUTS[0]:
            file = huggingface_hub.hf_hub_download(hub_id, name, revision=revision)
    return Path(file).parent
