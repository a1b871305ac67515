"""Which stories are the same.

Two stories are **the same** if their clean texts are equal. To a tokenizer that drops punctuation, as
the default one does, they are the same if their **bare texts** are: their letters, vowel signs, digits
and other symbols, in lower case, without punctuation, white space, control and format characters. So
they do not depend on what separates words.
"""

import functools
import string
import sys
import unicodedata

from tinylm.text.cleaning import ascii_marks
from tinylm.text.words import ASCII_SYMBOLS

_ASCII_DELETED = bytes([*range(33), 127, *string.punctuation.encode()])


@functools.cache
def _deleted() -> dict[int, str]:
    """Characters that are no part of a bare text, as a table for `str.translate`."""
    table = dict.fromkeys(map(ord, ASCII_SYMBOLS), "")
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if category[0] in "PZ" or category in ("Cc", "Cf"):
            table[code] = ""
    return table


def bare_text(text: str) -> bytes:
    """The bare text in UTF-8, by which stories are compared."""
    text = ascii_marks(text)
    if text.isascii():  # the same, ten times as fast
        return text.lower().encode().translate(None, _ASCII_DELETED)
    lower = "".join(map(str.lower, text))  # letter by letter: no rule of the final sigma
    return unicodedata.normalize("NFC", lower.translate(_deleted())).encode()
