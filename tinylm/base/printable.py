"""Text as it may be shown: on a terminal and in pages."""

import unicodedata
from typing import Any

# The joiners U+200C and U+200D are part of words.
_VISIBLE = {"\n": "\n", "\t": " ", "\u200c": "\u200c", "\u200d": "\u200d"}
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")  # Unicode's categories


def visible(text: Any) -> str:
    """Text with control and format characters and unpaired surrogates spelt out.

    A terminal would obey them. Characters are replaced one by one, so a text may be given in parts.
    """
    shown = []
    for character in str(text):
        if unicodedata.category(character) in _HIDDEN:
            character = _VISIBLE.get(character, f"⟨U+{ord(character):04X}⟩")
        shown.append(character)
    return "".join(shown)
