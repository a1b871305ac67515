"""Byte-pair encoding over bytes, run by the library `tokenizers`: trained here, or GPT-2's.

Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units", over bytes as
in GPT-2. A vocabulary trained here has ids 0 to 2 for `<sos> <eos> <pad>`, then the 256 bytes. The
merges follow, the most frequent pair first, equally frequent ones by ids.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tinylm.text.cleaning import unify
from tinylm.vocab.byte_level import BYTE_OF, ByteTokens, checked, pre_tokenizer
from tinylm.vocab.settings import VocabSettings

SPECIALS = ("<sos>", "<eos>", "<pad>")
Merges = Sequence[tuple[str, str]]


def byte_pair_library(tokens: Sequence[str], merges: Merges, lower_case: bool) -> Any:
    """The library's tokenizer over this vocabulary.

    Special tokens are plain entries, so that text cannot spell them.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers

    ids = {token: index for index, token in enumerate(tokens)}
    library = Tokenizer(models.BPE(ids, list(merges)))
    library.pre_tokenizer = pre_tokenizer()
    library.decoder = decoders.ByteLevel()
    if lower_case:
        library.normalizer = normalizers.Lowercase()
    return library


def parts_of(library: Any) -> tuple[list[str], Merges]:
    """(tokens in the order of their ids, merges) of a library's tokenizer."""
    model = json.loads(library.to_str())["model"]
    ids = model["vocab"]
    merges = [(left, right) for left, right in model["merges"]]
    return sorted(ids, key=ids.__getitem__), merges


class BpeTokenizer(ByteTokens):
    """Byte pairs merged in their order; no unknown token.

    tokens: all, in the order of their ids; specials: (`<sos>`, `<eos>`, `<pad>`), which may be one.
    """

    kind = "bpe"

    def __init__(
        self,
        tokens: Sequence[str],
        merges: Merges,
        lower_case: bool,
        specials: tuple[int, int, int] = (0, 1, 2),
    ):
        super().__init__(tokens, specials, byte_pair_library(tokens, merges, lower_case))
        self.sos_id, self.eos_id, self.pad_id = specials

    def rule(self) -> dict[str, Any]:
        """The kind, and whether text is put into lower case."""
        return {"kind": self.kind, "lower_case": self._library.normalizer is not None}

    def normalise(self, text: str) -> str:
        """The text that is modelled: clean, and in lower case if the tokenizer is so set."""
        text = unify(text)
        normalizer = self._library.normalizer
        return text if normalizer is None else normalizer.normalize_str(text)

    def encode(self, text: str) -> list[int]:
        """Ids of the text, no special token added; text that spells one is ordinary text."""
        return self.ids_of(unify(text))


def train_bpe(texts: Iterable[str], settings: VocabSettings) -> BpeTokenizer:
    """Merge the most frequent pairs up to `max_size` ids or until none occurs `min_count` times."""
    from tokenizers import trainers

    trainer = trainers.BpeTrainer(
        vocab_size=(settings.max_size or 0) - len(SPECIALS),
        min_frequency=settings.min_count,
        show_progress=False,
        initial_alphabet=sorted(BYTE_OF),
    )

    library = byte_pair_library((), (), settings.lower_case)
    library.train_from_iterator((checked(unify(text)) for text in texts), trainer)
    tokens, merges = parts_of(library)
    return BpeTokenizer([*SPECIALS, *tokens], merges, settings.lower_case)
