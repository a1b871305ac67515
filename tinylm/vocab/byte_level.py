"""Byte-level tokens: what all tokenizers share whose tokens spell bytes, one character per byte.

The table of characters and the pattern that splits text are GPT-2's (Radford et al. 2019, "Language
Models are Unsupervised Multitask Learners"): a space is "\u0120", a line feed "\u010a", and a token
that begins a word includes the space before it. Every text can be spelt, so nothing is unknown.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tinylm.vocab.tokenizer import Tokenizer

CHUNK = 1 << 16  # characters for the library at once: it uses 200 times a text's size in memory
VISIBLE_BYTES = (*range(33, 127), *range(161, 173), *range(174, 256))
_SAFE_CUT = re.compile(r"(?<=\S) (?=\S)")  # a single space always begins a token


def _byte_characters() -> dict[int, str]:
    table = {}
    hidden = 0
    for byte in range(256):
        if byte in VISIBLE_BYTES:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(256 + hidden)
            hidden += 1
    return table


CHARACTER_OF = _byte_characters()
BYTE_OF = {character: byte for byte, character in CHARACTER_OF.items()}


def whole_text(text: str) -> str:
    """The text with surrogate pairs joined and each lone surrogate as U+FFFD, as UTF-8 needs it."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


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


class ByteTokens(Tokenizer):
    """Tokens that spell bytes, and special ones that spell nothing; a space is shown as "\u0120".

    library: the tokenizer of the library `tokenizers` with the same ids.
    """

    def __init__(self, tokens: Sequence[str], specials: Iterable[int], library: Any = None):
        super().__init__(tokens, specials)
        self._library = library
        self._bytes = []
        for index, token in enumerate(self.tokens):
            spelt = "" if index in self.specials else token
            self._bytes.append(bytes(BYTE_OF[character] for character in spelt))

    def ids_of(self, text: str) -> list[int]:
        """Ids by the library's rule, chunk by chunk."""
        ids: list[int] = []
        for chunk in chunks(text):
            ids += self._library.encode_batch_fast([chunk])[0].ids
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text that the ids spell; bytes that are not UTF-8 become U+FFFD."""
        content = b"".join(self._bytes[index] for index in ids)
        return content.decode("utf-8", "replace")

    def word_of(self, index: int) -> str:
        """The bare text of one token, for look-up among word vectors; "" if it spells no word."""
        word = self._bytes[index].decode("utf-8", "replace").strip()
        return "" if "\ufffd" in word else word

    def library(self) -> Any:
        """The tokenizer of the library `tokenizers` with the same ids."""
        return self._library
