"""GPT-2's own vocabulary: 50,257 byte-level tokens (Radford et al. 2019, "Language Models are Unsupervised Multitask
Learners"), as published.

Ids 0 to 255 are bytes, each further id is the merge of its rank, and the last one, `<|endoftext|>`, has every special
role: it opens a story, ends it and pads.
"""

from collections.abc import Iterable
from pathlib import Path

from tinylm.base.config import InputError
from tinylm.vocab.byte_level import MergedTokens, byte_pair_library
from tinylm.vocab.gpt2_files import END_OF_TEXT, check_vocabulary, read_local
from tinylm.vocab.settings import VocabSettings

HUB_TIMEOUT_S = 10.0


class Gpt2Tokenizer(MergedTokens):
    """GPT-2's tokens; text that spells `<|endoftext|>` is ordinary text."""

    kind = "gpt2"

    def __init__(self, tokens: list[str], merges: Iterable[tuple[str, str]]):
        """`tokens`: all of them in the order of their ids, `<|endoftext|>` the last one."""
        end = len(tokens) - 1
        super().__init__(byte_pair_library(tokens, merges, lower_case=False), [end])
        self.sos_id = self.eos_id = self.pad_id = end

    def encode_story(self, text: str) -> list[int]:
        """`<|endoftext|> tokens <|endoftext|>`: one story as in the token store."""
        return [self.sos_id, *self.encode(text), self.eos_id]

    @classmethod
    def from_parts(
        cls, tokens: list[str], merges: list[tuple[str, str]], path: str | Path
    ) -> "Gpt2Tokenizer":
        """From what a file holds. Raises InputError if it is not GPT-2's published vocabulary."""
        check_vocabulary(tokens, merges, path)
        return cls(tokens, merges)


def load_gpt2(settings: VocabSettings) -> Gpt2Tokenizer:
    """The vocabulary that `path` or `hub_id` names. Raises InputError if it cannot be read or is not GPT-2's."""
    hub_id, revision = settings.hub_id, settings.hub_revision or "main"
    path = Path(settings.path) if hub_id is None else _from_hub(hub_id, revision)
    tokens, merges = read_local(path)
    return Gpt2Tokenizer.from_parts([*tokens, END_OF_TEXT], merges, path)


def _from_hub(hub_id: str, revision: str) -> Path:
    """The folder into which the hub's library has downloaded vocab.json and merges.txt."""
    import huggingface_hub

    try:
        for name in ("vocab.json", "merges.txt"):
            file = huggingface_hub.hf_hub_download(
                hub_id, name, revision=revision, etag_timeout=HUB_TIMEOUT_S
            )
    except Exception as error:  # offline mode, no network, no such id, revision or file, refused
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
        raise InputError(
            f"vocab.hub_id = {hub_id!r}, revision {revision!r}: the hub cannot be read ({reason}); "
            "check both, or name a local copy in vocab.path"
        ) from None
    return Path(file).parent
