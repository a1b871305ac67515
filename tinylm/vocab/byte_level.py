"""Byte-level tokens: what all tokenizers share if their tokens spell bytes, each byte as one visible character.

The table of characters and the pattern that splits text are GPT-2's (Radford et al. 2019, "Language Models are
Unsupervised Multitask Learners"): a space is "\u0120", a line feed "\u010a", and a token that opens a word
carries the space before it. Every text can be spelt, so nothing is unknown.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tinylm.base.files import atomic_write

CHUNK = 1 << 16  # characters for the library at once: it uses 200 times a text's size in memory
_VISIBLE = (*range(33, 127), *range(161, 173), *range(174, 256))
_SAFE_CUT = re.compile(
    r"(?<=\S) (?=\S)"
)  # a single space always opens a token, so a cut there is safe


def _byte_characters() -> dict[int, str]:
    hidden = [byte for byte in range(256) if byte not in _VISIBLE]
    shown = {byte: chr(byte) for byte in _VISIBLE} | {
        byte: chr(256 + i) for i, byte in enumerate(hidden)
    }
    return {byte: shown[byte] for byte in range(256)}


CHARACTER_OF = _byte_characters()
BYTE_OF = {character: byte for byte, character in CHARACTER_OF.items()}


def whole_text(text: str) -> str:
    """The text with surrogate pairs joined and each lone surrogate as U+FFFD: what UTF-8 can hold."""
    return (
        text
        if text.isascii()
        else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    )


def chunks(text: str, size: int = CHUNK) -> Iterator[str]:
    """The text in pieces of about `size` characters; their tokens are those of the whole text."""
    start = 0
    while len(text) - start > size:
        cut = _SAFE_CUT.search(text, start + size)
        if cut is None:
            break
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:]


@functools.cache
def pre_tokenizer() -> Any:
    """GPT-2's splitting of text into words, each with its space, in the library `tokenizers`."""
    from tokenizers import pre_tokenizers

    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


class ByteTokens:
    """Tokens that spell bytes, and special ones that spell nothing; subclasses say how text becomes ids.

    `tokens`: each id as it is shown, a space as "\u0120"; `lossless`: decoding a story's ids gives `normalise`.
    """

    unk_id = None
    lossless = True

    def __init__(self, tokens: Sequence[str], specials: Iterable[int]):
        self.tokens, self.specials = list(tokens), set(specials)
        self._bytes = [
            b"" if index in self.specials else bytes(map(BYTE_OF.__getitem__, token))
            for index, token in enumerate(self.tokens)
        ]

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """Ids of the text, no special token added."""
        raise NotImplementedError

    def decode(self, ids: Iterable[int]) -> str:
        """The text that the ids spell; special tokens spell nothing, bytes that are not UTF-8 become U+FFFD."""
        return b"".join(map(self._bytes.__getitem__, ids)).decode("utf-8", "replace")

    def split(self, text: str) -> list[str]:
        """The text's tokens as they are shown."""
        return [self.tokens[index] for index in self.encode(text)]

    def unknown_words(self, text: str) -> list[str]:
        """None: bytes spell every word."""
        return []

    def word_of(self, index: int) -> str:
        """The bare text of one token, for look-up among word vectors; "" if it spells no whole character."""
        word = self._bytes[index].decode("utf-8", "replace").strip()
        return "" if "\ufffd" in word else word


class MergedTokens(ByteTokens):
    """Byte pairs merged in their order (Sennrich et al. 2016), run by the library `tokenizers`."""

    def __init__(self, library: Any, specials: Iterable[int]):
        ids = library.get_vocab(with_added_tokens=False)
        super().__init__(sorted(ids, key=ids.__getitem__), specials)
        self._library = library

    def normalise(self, text: str) -> str:
        """The text that is modelled: unchanged, or in lower case if the tokenizer says so."""
        text = whole_text(text)
        normalizer = self._library.normalizer
        return text if normalizer is None else normalizer.normalize_str(text)

    def encode(self, text: str) -> list[int]:
        """Ids of the text, no special token added; text that spells one is ordinary text."""
        ids: list[int] = []
        for chunk in chunks(whole_text(text)):
            ids += self._library.encode_batch_fast([chunk])[0].ids
        return ids

    def save(self, path: str | Path) -> None:
        """Write tokenizer.json, readable by `tokenizers.Tokenizer.from_file`."""
        with atomic_write(path) as handle:
            handle.write(self._library.to_str(pretty=True) + "\n")


def byte_pair_library(
    tokens: Sequence[str], merges: Iterable[tuple[str, str]], lower_case: bool
) -> Any:
    """The library's tokenizer over this vocabulary; special tokens are plain entries, so that text cannot spell them.

    Raises ValueError if a merge makes or uses a token that the vocabulary lacks.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers

    try:
        model = models.BPE({token: index for index, token in enumerate(tokens)}, list(merges))
    except Exception as error:  # the library raises nothing more specific
        raise ValueError(str(error)) from None
    library = Tokenizer(model)
    library.pre_tokenizer, library.decoder = pre_tokenizer(), decoders.ByteLevel()
    if lower_case:
        library.normalizer = normalizers.Lowercase()
    return library
