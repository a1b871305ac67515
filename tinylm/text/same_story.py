"""Which stories are the same.

Two stories are **the same** if their clean texts are equal. To a tokenizer that drops punctuation, as
the default one does, they are the same if their **bare texts** are: their letters, vowel signs, digits
and other symbols, in lower case, without punctuation, white space, control and format characters. So
they do not depend on what separates words.
"""

import functools
import re
import string
import sys
import unicodedata

from tinylm.text.cleaning import ascii_marks

UNSPACED = re.compile(  # Thai to Lao, Myanmar, Khmer, Chinese and Japanese
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


WORD_SEPARATORS = re.compile("[\u0f0b\u0f0c\u1361]")  # Tibetan tsheg, Ethiopic word space
_ASCII_DELETED = bytes([*range(33), 127, *string.punctuation.encode()])


@functools.cache
def _deleted() -> dict[int, str]:
    """Characters that are no part of a bare text, as a table for `str.translate`."""
    table = dict.fromkeys(b"$+<=>^`|~", "")
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if category[0] in "PZ" or category in ("Cc", "Cf"):
            table[code] = ""
    return table


def spaced(text: str) -> str:
    """The text with each character of a script without spaces as a word.

    Where Tibetan and Ethiopic have a mark between words, the mark becomes a space.
    """
    if text.isascii():
        return text
    return WORD_SEPARATORS.sub(" ", UNSPACED.sub(r" \g<0> ", text))


def bare_text(text: str) -> bytes:
    """The bare text in UTF-8, by which stories are compared."""
    text = ascii_marks(text)
    if text.isascii():  # the same, ten times as fast
        return text.lower().encode().translate(None, _ASCII_DELETED)
    lower = "".join(map(str.lower, text))  # letter by letter: no rule of the final sigma
    return unicodedata.normalize("NFC", lower.translate(_deleted())).encode()
