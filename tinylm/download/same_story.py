"""Which stories are the same.

Two stories are **the same** if their clean texts are equal. To a tokenizer that drops punctuation, as
the default one does, they are the same if their **bare texts** are: their letters, vowel signs, digits
and other symbols, in lower case, without punctuation, white space, control and format characters.
"""

import functools
import re
import string
import sys
import unicodedata

from tinylm.download.cleaning import without_typography

UNSPACED = re.compile(  # Thai to Lao, Myanmar, Khmer, Chinese and Japanese
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


@functools.cache
def _deleted_or_space() -> dict[int, str]:
    """Characters that are no part of a bare word, as a table for `str.translate`."""
    table = dict.fromkeys(b"$+<=>^`|~", "")
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if category[0] == "P" or category == "Cf":
            table[code] = ""
        elif category[0] == "Z" or category == "Cc":
            table[code] = " "
    return table


def bare_words(text: str) -> list[bytes]:
    """The words by which stories are compared, in UTF-8."""
    text = without_typography(text)
    if text.isascii():  # the same, ten times as fast
        return text.lower().encode().translate(None, string.punctuation.encode()).split()
    lower = "".join(map(str.lower, text))  # letter by letter: no rule of the final sigma
    bare = unicodedata.normalize("NFC", lower.translate(_deleted_or_space()))
    return spaced(bare).encode().split()


def spaced(text: str) -> str:
    """The text with each character of a script without spaces as a word."""
    return text if text.isascii() else UNSPACED.sub(r" \g<0> ", text)


def bare_text(text: str) -> bytes:
    """The bare words without white space, in UTF-8."""
    return b"".join(bare_words(text))
