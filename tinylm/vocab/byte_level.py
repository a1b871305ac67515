"""Byte-level tokens: what all tokenizers share whose tokens spell bytes, one character per byte.

The table of characters and the pattern that splits text are GPT-2's (Radford et al. 2019, "Language
Models are Unsupervised Multitask Learners"): a space is "\u0120", a line feed "\u010a", and a token
that begins a word includes the space before it. Every text can be spelt, so nothing is unknown.
"""

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tinylm.base.config import InputError
from tinylm.text.cleaning import IGNORED
from tinylm.vocab.tokenizer import Tokenizer

LONGEST_WORD = 1 << 15  # characters; the time to train merges grows with its square
_TOO_LONG = re.compile(rf"\S{{{LONGEST_WORD + 1}}}|\s{{{LONGEST_WORD + 1}}}")

_VISIBLE = (*range(33, 127), *range(161, 173), *range(174, 256))
_HIDDEN = (byte for byte in range(256) if byte not in _VISIBLE)
CHARACTER_OF = {byte: chr(byte) for byte in _VISIBLE}
CHARACTER_OF |= {byte: chr(256 + number) for number, byte in enumerate(_HIDDEN)}
BYTE_OF = {character: byte for byte, character in CHARACTER_OF.items()}


def checked(text: str) -> str:
    """The text. Raises InputError if a word, or white space, is longer than LONGEST_WORD."""
    if len(text) > LONGEST_WORD and (found := _TOO_LONG.search(text)):
        raise InputError(
            f"the text that begins {text[:40]!r}: expected words of at most {LONGEST_WORD:,} characters, "
            f"got a longer one that begins {found[0][:20]!r}"
        )
    return text


@functools.cache
def pre_tokenizer() -> Any:
    """GPT-2's splitting of text into words, each with its space, in the library `tokenizers`."""
    from tokenizers import pre_tokenizers

    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


class ByteTokens(Tokenizer):
    """Tokens that spell bytes, and special ones that spell nothing; a space is shown as "\u0120".

    library: the tokenizer of the library `tokenizers` with the same ids of clean text.
    """

    def __init__(self, tokens: Sequence[str], specials: Iterable[int], library: Any = None):
        super().__init__(tokens, specials)
        self._library = library
        self._bytes = []
        for index, token in enumerate(self.tokens):
            spelt = "" if index in self.specials else token
            self._bytes.append(bytes(BYTE_OF[character] for character in spelt))

    def ids_of(self, text: str) -> list[int]:
        """The token ids of a text."""
        ids: list[int] = self._library.encode_batch_fast([checked(text)])[0].ids
        return ids

    def decode(self, ids: Iterable[int], unknown: Iterable[str] = ()) -> str:
        """The text that the ids spell; bytes that are not UTF-8 become U+FFFD."""
        content = b"".join(self._bytes[index] for index in ids)
        return content.decode("utf-8", "replace")

    def word_of(self, index: int) -> str:
        """The bare text of one token, for look-up among word vectors; "" if it spells no word."""
        word = self._bytes[index].decode("utf-8", "replace").strip()
        return "" if "\ufffd" in word else word

    def shown(self, index: int) -> str:
        """The characters of a token that spells whole ones; white space as GPT-2 shows it."""
        try:
            spelt = self._bytes[index].decode()
        except UnicodeDecodeError:
            return self.tokens[index]
        if index in self.specials:
            return self.tokens[index]
        return "".join(CHARACTER_OF[ord(one)] if one <= " " else one for one in spelt)

    def library(self) -> Any:
        """The library's tokenizer with the same ids; `unify`'s rule is its normalizer."""
        from tokenizers import Regex, Tokenizer, normalizers

        library = Tokenizer.from_str(self._library.to_str())
        steps: list[Any] = [
            normalizers.Replace(Regex(f"[{IGNORED}]"), ""),
            normalizers.NFC(),
            normalizers.Replace("\r\n", "\n"),
            normalizers.Replace(Regex("[\x0b-\x0d\x85\u2028\u2029]"), "\n"),
            normalizers.Replace(Regex("[\x00-\x08\x0e-\x1f\x7f-\x9f]"), " "),
        ]
        if self._library.normalizer is not None:
            steps.append(self._library.normalizer)
        library.normalizer = normalizers.Sequence(steps)
        return library
