"""Byte-pair encoding over bytes, trained on the train split through the library `tokenizers`.

Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units", over bytes as in GPT-2. Ids 0 to
2 are `<sos> <eos> <pad>`; then the 256 bytes; then a token for each merge, the most frequent pair first, ties by ids.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.vocab.byte_level import (
    CHARACTER_OF,
    MergedTokens,
    byte_pair_library,
    chunks,
    whole_text,
)
from tinylm.vocab.settings import VocabSettings

SPECIALS = ("<sos>", "<eos>", "<pad>")
SOS_ID, EOS_ID, PAD_ID = range(3)


class BpeTokenizer(MergedTokens):
    """`<sos> <eos> <pad>`, then tokens that spell bytes; no unknown token."""

    kind = "bpe"
    sos_id, eos_id, pad_id = SOS_ID, EOS_ID, PAD_ID

    def __init__(self, tokens: Iterable[str], merges: Iterable[tuple[str, str]], lower_case: bool):
        """`tokens`: in the order of their ids, without the special ones."""
        super().__init__(
            byte_pair_library([*SPECIALS, *tokens], merges, lower_case), range(len(SPECIALS))
        )

    def encode_story(self, text: str) -> list[int]:
        """`<sos> tokens <eos>`: one story as in the token store."""
        return [SOS_ID, *self.encode(text), EOS_ID]

    @classmethod
    def from_parts(
        cls, tokens: list[str], merges: list[tuple[str, str]], lower_case: bool, path: str | Path
    ) -> "BpeTokenizer":
        """From what a tokenizer file holds. Raises InputError if `train_bpe` would not have made it."""
        if tuple(tokens[: len(SPECIALS)]) != SPECIALS:
            raise InputError(f"{path}: ids 0 to 2 are {tokens[:3]}; allowed: {list(SPECIALS)}")
        made = dict.fromkeys(
            [*_bytes(), *(left + right for left, right in merges)]
        )  # two merges may give one token
        if tokens[len(SPECIALS) :] != list(made):
            raise InputError(
                f"{path}: its tokens are not the 256 bytes followed by one for each merge"
            )
        try:
            return cls(tokens[len(SPECIALS) :], merges, lower_case)
        except ValueError as error:
            raise InputError(f"{path}: its merges do not fit its tokens ({error})") from None


def _bytes() -> list[str]:
    return sorted(CHARACTER_OF.values())


def train_bpe(texts: Iterable[str], settings: VocabSettings) -> BpeTokenizer:
    """Merge the most frequent pairs until there are `max_size` ids, or until no pair occurs `min_count` times."""
    from tokenizers import trainers

    trainer = trainers.BpeTrainer(
        vocab_size=(settings.max_size or 0) - len(SPECIALS),
        min_frequency=settings.min_count,
        show_progress=False,
        initial_alphabet=_bytes(),
    )
    library = byte_pair_library((), (), settings.lower_case)
    library.train_from_iterator(
        (chunk for text in texts for chunk in chunks(whole_text(text))), trainer
    )
    model: dict[str, Any] = json.loads(library.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return BpeTokenizer(
        tokens, [(left, right) for left, right in model["merges"]], settings.lower_case
    )
